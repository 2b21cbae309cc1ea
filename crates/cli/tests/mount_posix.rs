//! POSIX on a real mount: scripts of system calls give word by word what they give on the local file
//! system. The scripts below state rules; random ones look for what nobody thought of.

mod mount_support;
mod support;

use mount_support::actor::{self, compare};
use mount_support::sea;
use std::path::PathBuf;
use support::Random;

/// Each line is a script of its own, steps separated by `;`. It starts in an empty directory that
/// everybody may write to.
const RULES: &[&str] = &[
    // Kinds of files.
    "mknod f fifo 644; mknod s socket 600; mknod c char 666; mknod b block 660; mknod r file 640; symlink to l; mkdir d 750; stat f; stat s; stat c; stat b; stat r; stat l; stat d; ls .; readlink l; readlink r",
    "as 1001 1001; mknod c char 666; mknod b block 666; mknod f fifo 666; mknod s socket 666; mknod r file 666; stat f",
    "mknod f fifo 644; get f; unlink f; mknod s socket 644; get s; rename s t; stat t; link t u; stat u; unlink t; stat u",
    "symlink nowhere l; get l; put l x; stat nowhere; symlink l2 l1; symlink l1 l2; get l1; symlink . here; stat here; ls here",
    // Hard links: one inode, one set of attributes.
    "put a one; link a b; stat a; stat b; put b three; get a; chmod a 600; stat b; chown b 1001 1001; stat a; truncate a 2; stat b; unlink a; stat b; get b; link b b; link x y; mkdir d 755; link d e",
    "put a x; as 1001 1001; link a b; stat b",
    // Permissions.
    "put a secret; chmod a 600; as 1001 1001; get a; put a x; truncate a 0; chmod a 777; chown a 1001 1001; utimens a now now; utimens a 5 5; unlink a; stat a",
    "put a text; chmod a 640; chown a 0 1002; as 1001 1001 1002; get a; put a x; as 1001 1001; get a; as 1002 1002; get a; access a 4; access a 2",
    "put a text; chown a 1001 1001; chmod a 077; as 1001 1001; get a; access a 4; as 1003 1001; get a; as 1003 1003; get a",
    "mkdir d 700; put d/a x; as 1001 1001; get d/a; stat d/a; ls d; put d/b x; mkdir d/e 755; unlink d/a; rename d/a b; as 0 0; chmod d 711; as 1001 1001; get d/a; ls d; as 0 0; chmod d 744; as 1001 1001; ls d; stat d/a",
    "mkdir d 555; chown d 1001 1001; as 1001 1001; put d/a x; mkdir d/b 755; chmod d 755; put d/a x; chmod d 555; unlink d/a; rename d/a d/b; get d/a",
    "put a x; chmod a 111; as 1001 1001; get a; access a 1; access a 5",
    // Sticky directories.
    "mkdir t 1777; as 1001 1001; put t/a x; mkdir t/d 755; as 1002 1002; unlink t/a; rmdir t/d; rename t/a t/b; put t/c y; rename t/c t/a; rename t/c t/a exchange; as 1001 1001; rename t/a t/b; unlink t/b; rmdir t/d",
    // Set-id bits.
    "put a x; chmod a 6777; stat a; as 1001 1001; append a y; as 0 0; stat a; chmod a 6777; append a z; stat a; chown a 1001 1001; stat a; chmod a 2767; as 1002 1002; append a q; stat a",
    "put a x; chown a 1001 1001; chmod a 6755; as 1001 1001; truncate a 0; stat a; chmod a 6755; chown a -1 1001; stat a; chmod a 4644; stat a; chown a -1 -1; stat a; chmod a 2755; stat a",
    // Who cuts a file that is open is known by the call, not by the opening.
    "put a xyz; chmod a 6777; as 1001 1001; hold h a w; ftruncate h 2; stat a; as 0 0; chmod a 6777; hold k a rw; ftruncate k 1; stat a; as 1001 1001; ftruncate k 1; stat a; as 0 0; chmod a 6777; as 1001 1001; open a w,trunc 0; stat a; as 0 0; chmod a 2767; as 1001 1001; ftruncate h 5; stat a; as 0 0; chmod a 2767; as 1001 0; ftruncate h 5; stat a; as 0 0; chmod a 7666; chown a 1001 1001; chmod a 7666; as 1001 1001; ftruncate h 9; stat a",
    "put a x; chown a 1001 1005; as 1001 1001; chmod a 2755; stat a; as 1001 1001 1005; chmod a 2755; stat a; chown a -1 1005; chown a -1 1006; chown a 1002 -1; stat a",
    "mkdir d 2777; chown d 0 1009; chmod d 2777; as 1001 1001; put d/a x; mkdir d/e 755; mknod d/r file 2755; stat d/a; stat d/e; stat d/r; open d/n w,creat 2775; stat d/n",
    // Names.
    "put MAX x; stat MAX; put LONG x; mkdir LONG 755; rename MAX LONG; get LONG; symlink x LONG; link MAX LONG; unlink MAX; mkdir MAX 755; put MAX/MAX x; get MAX/MAX",
    "put a x; stat a/b; put a/b x; mkdir a/b 755; unlink a/b; get a/; mkdir b/ 755; put b/ x; rmdir b/; stat nothing/x",
    // Directories.
    "mkdir d 755; stat d; mkdir d/e 755; mkdir d/f 755; stat d; rmdir d; rmdir d/e; stat d; put d/x y; unlink d/x; rmdir d/f; rmdir d; rmdir d; stat d; unlink nothing; mkdir d 755; unlink d; put d x; rmdir nothing; put a x; rmdir a",
    // Rename in all its variants.
    "put a 1; put b 2; rename a b; get b; stat a; rename b b; get b; rename x y; put c 3; rename b c noreplace; rename b d noreplace; get d; rename c d exchange; get c; get d; rename c x exchange; stat x",
    "mkdir d 755; mkdir e 755; put e/x y; rename d e; rename e d; ls d; mkdir f 755; mkdir f/g 755; rename f f/g/h; rename f f/g; put a x; rename a f; rename f a; rename d f; stat f; rename f/g g; stat f; stat g",
    "mkdir d 755; put a x; rename d a exchange; stat a; get d; mkdir e 755; rename a e/a; stat e; stat .; rename e/a d exchange; stat e; get e/a; stat d",
    "put a 1; link a b; rename a b; stat a; stat b; put c 2; link c d; rename a d; stat b; stat c",
    "mkdir d 755; chown d 1001 1001; mkdir o 777; as 1001 1001; mkdir d/m 755; rename d/m o/m; as 1002 1002; rename o/m o/n; mkdir o/q 755; rename o/n d/n",
    // Whiteouts, which anybody may leave.
    "put a 1; rename a b whiteout; stat a; get b; ls .; put c 2; rename c b whiteout noreplace; rename c d whiteout noreplace; stat c; get d; rename b d whiteout; get d; stat b; rename d b whiteout exchange; rename x y whiteout; rename a e whiteout; stat e; stat a; unlink a; stat a",
    "mkdir d 2777; chown d 0 1009; chmod d 2777; as 1001 1001; put d/a x; rename d/a d/b whiteout; stat d/a; mkdir d/e 755; rename d/e d/f whiteout; stat d/e; stat d/f; stat d; mknod d/w whiteout 644; stat d/w; mkdir d/g 755; rename d/g d/h; link d/b d/i; rename d/b d/i whiteout; stat d/b; ls d; as 0 0; mkdir t 1777; put t/a x; as 1001 1001; rename t/a t/b whiteout; rename t/a d/z whiteout",
    "mkdir d 755; mkdir e 755; mkdir d/s 755; put d/a x; rename d/s e/s whiteout; stat d; stat e; rename d/a e/a whiteout; ls d; ls e; unlink d/a; unlink d/s; rmdir d",
    // Files without a name.
    "hold h . rw,tmpfile; fstat h; write h hello; pread h 0 9; fstat h; ls .; linkfd h a; stat a; get a; fstat h; linkfd h b; stat a; unlink a; unlink b; fstat h; linkfd h c; stat c; pread h 0 9; drop h; ls .",
    "hold h . w,tmpfile,excl; write h x; linkfd h a; fstat h; drop h; hold h . r,tmpfile; hold h nothing rw,tmpfile; put f x; hold h f rw,tmpfile; hold h . w,tmpfile; write h one; drop h; ls .; hold h f rw; unlink f; linkfd h g; fstat h",
    "mkdir d 2775; chown d 0 1009; chmod d 2775; as 1001 1001; hold h d rw,tmpfile; as 1001 1001 1009; hold h d rw,tmpfile; fstat h; write h x; linkfd h d/a; stat d/a; as 0 0; mkdir e 700; as 1001 1001; hold k . rw,tmpfile; linkfd k e/a; linkfd k b; linkfd k b; get b; fstat k",
    "hold h . rw,tmpfile; fchmod h 600; ftruncate h 100; pwrite h 50 x; fstat h; hold k . rw,tmpfile; copy h k 0 0 100; fstat k; linkfd k a; drop k; drop h; stat a; rename a b; get b",
    // File handles, also when the kernel has forgotten what they lead to.
    "put a hello; handle n a; mkdir d 755; put d/b x; handle m d/b; handle k d; symlink a l; handle s l; handle z .; forget; byhandle h n r; pread h 0 9; fstat h; drop h; forget; byhandle h m rw; pwrite h 0 y; drop h; get d/b; rename d/b c; rename d e; forget; byhandle h m r; pread h 0 9; byhandle h k r,dir; fstat h; drop h; byhandle h z r,dir; fstat h; byhandle h s r; unlink a; forget; byhandle h n r; put a again; byhandle h n r; handle n nothing",
    "put a x; handle n a; hold h a r; unlink a; byhandle k n r; fstat k; drop k; drop h; forget; byhandle k n r; put a x; handle n a; as 1001 1001; byhandle k n r; as 0 0; mkdir d 755; handle m d; rmdir d; forget; byhandle k m r,dir",
    // Unlinked, and still open.
    "hold h a rw,creat; write h hello; link a b; unlink a; fstat h; unlink b; fstat h; pread h 0 10; pwrite h 5 world; pread h 0 20; ftruncate h 3; fstat h; fchmod h 600; fstat h; put a other; get a; pread h 0 9; drop h; get a",
    "put a first; hold h a r; put b second; rename b a; pread h 0 9; fstat h; get a; drop h; get a",
    "mkdir d 755; hold h d r,dir; rmdir d; fstat h; drop h; stat d",
    // Removed, and still somebody's.
    "mkdir d 755; hold h d r,dir; hold r . r,dir; put a x; mkdir s 755; rmdir d; fchmod h 2711; fstat h; fchown h 1001 1002; fstat h; futimens h 5 6; ftimes h; fls h; within h create x; within h mkdir x; within h symlink x; within h link x a r; within h rename x a r; within h rename x s r; within h tmpfile .; within h open x; within h open .; fsync h; fstat h; mkdir d 755; stat d; fchmod h 700; stat d; fstat h",
    "mkdir d 755; chown d 1001 1001; hold h d r,dir; mkdir e 755; rename e d; as 1002 1002; fchmod h 700; fchown h 1002 1002; futimens h 5 6; as 1001 1001; fchmod h 710; fchown h 1002 1001; futimens h 7 8; fstat h; ftimes h; as 0 0; stat d",
    "mkdir d 755; put d/x y; as 1001 1001; hold h d r,dir; peek h x; as 0 0; unlink d/x; rmdir d; as 1001 1001; peek h x; fstat h; peek h .; as 0 0; peek h x",
    // The same for extended attributes, also of one that another directory took the place of.
    "mkdir d 755; setxattr d user.one 1; setxattr d user.two 2; setxattr d trusted.t 3; hold h d r,dir; rmdir d; flistxattr h; fgetxattr h user.one; fgetxattr h user.none; fgetxattr h trusted.t; fsetxattr h user.one 11; fgetxattr h user.one; fsetxattr h user.one 12 create; fsetxattr h user.three 3 replace; fsetxattr h user.three 3 create; fsetxattr h user.three 33 replace; fsetxattr h user.three 4 both; fsetxattr h user.four 4 both; fgetxattr h user.three; fdelxattr h user.two; fdelxattr h user.two; flistxattr h; fsetxattr h bad.name x; fsetxattr h user. x; fgetxattr h bad.name; as 1001 1001; flistxattr h; fgetxattr h user.one; fsetxattr h user.one 5; fsetxattr h trusted.t 5; fdelxattr h user.one; as 0 0; fgetxattr h user.one; mkdir d 755; listxattr d; fstat h",
    "mkdir d 755; mkdir e 755; setxattr d user.one 1; setxattr e user.one 2; hold h d r,dir; hold k e r,dir; rename e d; fgetxattr h user.one; fgetxattr k user.one; fsetxattr h user.one 3; fsetxattr k user.one 4; getxattr d user.one; flistxattr h; rmdir d; flistxattr k; fgetxattr k user.one; mkdir d 755; setxattr d user.one 5; rmdir d; fgetxattr h user.one",
    // Opening.
    "open a rw 644; open a rw,creat 640; stat a; open a rw,creat,excl 640; open a r,dir 0; mkdir d 755; open d w 0; open d r 0; open d rw,creat 644; symlink a l; open l r,nofollow 0; open l w,creat,excl 644; open a w,trunc 0; stat a",
    "put a 12345; open a w,trunc 0; stat a; put a 12345; open a r 0; stat a; open b rw,creat 444; stat b; as 1001 1001; open b rw 0; open b r 0; open a w,trunc 0",
    // Sizes.
    "put a hello; truncate a 3; get a; truncate a 10; get a; truncate a 5000; stat a; truncate a 0; stat a; truncate d 1; mkdir d 755; truncate d 1; truncate a -1",
    "hold h a rw,creat; pwrite h 100000 x; fstat h; pread h 99990 20; pread h 5000 8; ftruncate h 99000; fstat h; pwrite h 99000 yy; pread h 98990 30; fsync h; fstat h",
    "hold h a rw,creat,append; write h abc; write h def; pread h 0 10; pwrite h 0 zzz; pread h 0 20; fstat h; append a more; pread h 0 30",
    // Space.
    "hold h a rw,creat; fallocate h plain 0 200000; fstat h; fallocate h keep 200000 400000; fstat h; pwrite h 0 data; pwrite h 150000 more; fallocate h punch 0 100; pread h 0 8; fallocate h zero 149999 3; pread h 149990 20; fallocate h zero 190000 90000; fstat h; fallocate h zerokeep 270000 100000; fstat h; fallocate h plain 0 0",
    "hold h a rw,creat; ftruncate h 1048576; seekdata h 0; seekhole h 0; pwrite h 524288 x; seekdata h 0; seekhole h 524288; seekdata h 530000; seekhole h 1048576; seekdata h 1048576; seekdata h 2000000; pwrite h 0 y; seekdata h 0; seekhole h 0",
    "hold h a rw,creat; write h 0123456789; hold k b rw,creat; copy h k 2 0 5; pread k 0 20; copy h k 0 100 100; fstat k; copy h k 50 0 10; copy h h 0 20 5; pread h 0 40; fstat h",
    // More than a file can have: nothing of it is done.
    "put a hello; truncate a 1125899906842624; stat a; truncate a 4611686018427387904; truncate a 9223372036854775807; stat a; get a; hold h a rw; ftruncate h 1125899906842624; ftruncate h 4611686018427387904; ftruncate h 9223372036854775807; fstat h; pread h 0 9; truncate a 3; get a",
    "put a hello; hold h a w; pwrite h 9223372036854775803 abcd; pwrite h 9223372036854775803 abcde; pwrite h 4611686018427387904 x; pwrite h 1125899906842624 x; fstat h; hold k a rw; pwrite k 9223372036854775803 abcd; pwrite k 4611686018427387904 x; pwrite k 1125899906842624 x; fstat k; drop h; drop k; stat a; get a",
    "put a hello; hold h a rw; pread h 9223372036854775803 4; pread h 9223372036854775803 5; pread h 4611686018427387904 5; seekdata h 9223372036854775800; seekhole h 9223372036854775800; seekdata h 1125899906842624; fstat h",
    "put a hello; hold h a rw; fallocate h plain 1125899906842624 10; fallocate h plain 4611686018427387904 10; fallocate h plain 9223372036854775788 10; fallocate h plain 9223372036854775803 10; fallocate h plain 0 1125899906842624; fallocate h keep 1125899906842624 10; fallocate h punch 1125899906842624 10; fallocate h zero 1125899906842624 10; fstat h; pread h 0 9",
    // What files with holes take, and those with space behind their end.
    "hold h a rw,creat; ftruncate h 1048576; blocks a; pwrite h 524288 x; blocks a; fsync h; blocks a; fallocate h plain 0 65536; blocks a; fallocate h punch 0 32768; blocks a; drop h; blocks a; ls .; blocks a; truncate a 262144; blocks a; chmod a 600; blocks a; link a b; blocks b; truncate a 0; blocks a; put a x; blocks a",
    "hold h a w,creat; pwrite h 3145728 x; blocks a; pwrite h 0 y; blocks a; drop h; blocks a; hold h a rw; fallocate h keep 4194304 131072; blocks a; drop h; blocks a; put c hello; blocks c; put d x; hold k d rw; fallocate k zerokeep 0 8192; blocks d",
    // Holes of files that had some before they were emptied.
    "hold h a rw,creat; fallocate h plain 0 65536; fallocate h punch 0 4096; blocks a; ftruncate h 0; blocks a; fallocate h plain 0 65536; blocks a; fallocate h punch 0 32768; blocks a; open a w,trunc 0; pwrite h 1048576 x; blocks a; truncate a 0; fallocate h keep 0 131072; blocks a; drop h; blocks a",
    "hold h a rw,creat; pwrite h 1048575 x; blocks a; drop h; hold h a rw,trunc; blocks a; pwrite h 0 y; pwrite h 1000000 x; blocks a; drop h; blocks a; hold h a w,trunc; pwrite h 2097151 x; blocks a; ftruncate h 0; blocks a; pwrite h 524288 x; blocks a; drop h; blocks a",
    "put a x; hold h a rw; ftruncate h 1048576; blocks a; truncate a 0; blocks a; pwrite h 1000000 x; blocks a; drop h; truncate a 0; blocks a; put a y; blocks a",
    // Extended attributes.
    "put a x; setxattr a user.one 1; getxattr a user.one; setxattr a user.one 22; getxattr a user.one; getxattr a user.one 1; getxattr a user.one 0; setxattr a user.one 3 create; setxattr a user.two 2 replace; setxattr a user.two 2 create; listxattr a; delxattr a user.one; delxattr a user.one; listxattr a; getxattr a user.none; setxattr a bad.name x; setxattr a user. x; setxattr a trusted. x; setxattr a security. x; getxattr a trusted.; delxattr a security.; setxattr a trusted.x y; getxattr a trusted.x",
    "put a x; setxattr a user.one 1 both; listxattr a; setxattr a user.one 1; setxattr a user.one 2 both; getxattr a user.one; setxattr a bad.name x both; setxattr a system.x y both",
    "put a x; chmod a 600; setxattr a user.one 1; setxattr a trusted.t 1; as 1001 1001; getxattr a user.one; setxattr a user.two x; listxattr a; getxattr a trusted.t; setxattr a trusted.u x; as 0 0; listxattr a; symlink a l; setxattr l user.x y; mkdir d 755; setxattr d user.x y; getxattr d user.x; mknod f fifo 644; setxattr f user.x y",
    // File capabilities go when a file is written, cut or given away, by whomever.
    "put a x; setcap a; hascap a; append a y; hascap a; setcap a; hold h a w; write h z; hascap a; setcap a; hascap a; write h q; hascap a; drop h; hold h a w; write h z; setcap a; drop h; hascap a; put a new; hascap a",
    "put a xyz; hold k a rw; setcap a; pwrite k 0 m; hascap a; setcap a; pread k 0 3; hascap a; ftruncate k 1; hascap a; setcap a; truncate a 2; hascap a; setcap a; fallocate k plain 0 10; hascap a; setcap a; fallocate k punch 0 1; hascap a; hold j b rw,creat; write j bytes; setcap a; copy j k 0 0 3; hascap a; setcap a; open a w,trunc 0; hascap a",
    "put a xyz; hold h a w; setcap a; ftruncate h 1; hascap a; setcap a; fallocate h plain 0 10; hascap a; hold j b rw,creat; write j bytes; setcap a; copy j h 0 0 3; hascap a; fsync h; setcap a; fsync h; hascap a",
    "put a x; setcap a; chown a 1001 -1; hascap a; setcap a; chown a -1 -1; hascap a; setcap a; chmod a 755; hascap a; utimens a 1 2; hascap a; link a b; hascap b; rename b c; hascap c; setxattr a user.x y; hascap a; delxattr a security.capability; hascap a",
    "put a x; chmod a 6777; setcap a; append a y; stat a; hascap a; setcap a; as 1001 1001; setcap a; hascap a; append a z; stat a; hascap a; as 0 0; chmod a 6777; setcap a; as 1001 1001; hold h a rw; pwrite h 0 q; stat a; hascap a; as 0 0; setcap a; as 1001 1001; truncate a 1; hascap a; as 0 0; setcap a; as 1001 1001; delxattr a security.capability; hascap a",
    // Access control lists: set, shown as the group's bits, changed by chmod, gone when they say no more
    // than the mode does.
    "put a x; setacl a access u::rw,u:1001:rw,g::r,m::rw,o::-; stat a; getacl a; listxattr a; chmod a 640; stat a; getacl a; chmod a 4755; stat a; getacl a; chown a 1002 1003; stat a; getacl a; setacl a access u::rw,g::r,o::-; stat a; getacl a; listxattr a",
    "put a x; setacl a access u::rwx,g::rw,m::r,o::x; stat a; getacl a; delacl a access; stat a; getacl a; delacl a access; delacl a default; getacl a; setacl a access raw:; setacl a access raw:02000000; getacl a; stat a",
    "put a x; link a b; setacl a access u::rw,u:7:r,g::-,m::r,o::-; getacl b; rename a c; getacl c; chmod b 604; getacl c; hold h c r; unlink b; unlink c; fchmod h 640; fstat h; put a y; getacl a",
    // Whom they let in, by name, by group, through the mask.
    "put a text; chmod a 600; setacl a access u::rw,u:1001:rw,g::r,g:1005:w,m::rw,o::-; as 1001 9; get a; append a y; access a 7; as 1002 9; get a; as 9 1002 1005; get a; append a z; access a 6; as 9 1005; append a z; as 9 0; get a; as 9 0 1005; access a 6; access a 4; access a 2; as 0 0; chmod a 620; as 1001 9; get a; append a q; as 9 0; get a; as 9 1005; append a z",
    "put a text; setacl a access u::-,u:1001:rw,g::rwx,m::rwx,o::rwx; chown a 1002 1002; as 1002 1002; get a; access a 4; as 1001 1002; get a; access a 1; as 1003 1002; get a; access a 1; as 9 9; access a 7; as 0 0; access a 7",
    // A mask that leaves nothing: those who are named are others then.
    "put a text; setacl a access u::rw,u:1001:rw,g::rw,g:1005:rw,m::-,o::r; stat a; as 1001 9; get a; append a x; as 9 1005; get a; as 9 0; get a; as 9 9; get a",
    "mkdir d 700; setacl d access u::rwx,u:1001:rwx,u:1002:x,g::-,m::rwx,o::-; put d/a x; as 1001 9; put d/b y; ls d; unlink d/a; mkdir d/e 755; stat d/b; as 1002 9; ls d; get d/b; put d/c z; unlink d/b; as 1003 9; get d/b; stat d/b; access d 1",
    "put a x; setacl a access u::rw,u:1001:rw,g::-,m::rw,o::-; as 1001 9; utimens a now now; utimens a 5 5; truncate a 0; chmod a 777; setacl a access u::rw,g::-,o::-; delacl a access; setxattr a user.x y; getxattr a user.x; hold h a rw; pwrite h 0 abc; as 0 0; get a; getacl a; stat a",
    "put a x; chown a 1001 1001; as 1001 1001; setacl a access u::rw,u:1002:r,g::-,m::r,o::-; getacl a; as 1002 1002; get a; getacl a; setacl a access u::rw,u:1002:rw,g::-,m::rw,o::-; delacl a access; as 1001 1001; delacl a access; getacl a; stat a",
    // Set-id bits: who is not in the group loses its bit.
    "put a x; chown a 1001 1005; chmod a 6755; as 1001 1001; setacl a access u::rwx,u:7:x,g::rx,m::rx,o::-; stat a; as 1001 1001 1005; chmod a 2755; setacl a access u::rwx,u:7:x,g::rx,m::rwx,o::-; stat a; as 0 0; chmod a 6755; setacl a access u::rwx,u:7:x,g::rx,m::rwx,o::-; stat a; as 1001 1001; append a y; stat a",
    "mkdir d 755; chown d 1001 1005; chmod d 2755; as 1001 1001; setacl d default u::rwx,u:7:x,g::rx,m::rx,o::-; stat d; setacl d access u::rwx,u:7:x,g::rx,m::rx,o::-; stat d; mkdir d/e 755; stat d/e; getacl d/e",
    // Default lists: inherited, whatever the umask; by all but symbolic links.
    "umask 027; put a x; stat a; mkdir d 777; stat d; mknod f fifo 666; stat f; umask 077; open b w,creat 666; stat b; setacl d default u::rwx,u:1001:rwx,g::rx,m::rwx,o::rx; stat d; getacl d; put d/a x; stat d/a; getacl d/a; mkdir d/e 777; stat d/e; getacl d/e; mkdir d/f 700; getacl d/f; open d/g w,creat,excl 666; getacl d/g; mknod d/p fifo 640; getacl d/p; mknod d/s socket 777; getacl d/s; mknod d/c char 620; getacl d/c; symlink a d/l; stat d/l; getacl d/l; put d/e/x y; getacl d/e/x; stat d/e/x; link a d/h; getacl d/h; stat d/h; rename a d/e/r; getacl d/e/r",
    "umask 077; mkdir d 755; setacl d default u::rw,g::r,o::-; put d/a x; stat d/a; getacl d/a; mkdir d/e 777; stat d/e; getacl d/e; delacl d/e default; put d/e/b x; stat d/e/b; setacl d/e default raw:; setacl d default raw:02000000; put d/c x; stat d/c; getacl d",
    "mkdir d 2777; chown d 0 1009; chmod d 2777; setacl d default u::rwx,g::rwx,g:1001:rwx,m::rwx,o::-; as 1001 1001; umask 077; put d/a x; stat d/a; getacl d/a; mkdir d/e 770; stat d/e; getacl d/e; open d/n w,creat 2775; stat d/n; getacl d/n; mknod d/m file 6777; stat d/m",
    // Where they cannot be, and what is none.
    "put a x; setacl a default u::rw,g::-,o::-; delacl a default; symlink a l; setacl l access u::rw,g::-,o::-; getacl l; delacl l access; mknod f fifo 600; setacl f access u::rw,u:1:r,g::-,m::r,o::-; getacl f; stat f; setacl none access u::rw,g::-,o::-; getacl none; setxattr a system.other x; getxattr a system.other",
    "put a x; setacl a access u::rw,o::-,g::-; setacl a access u::rw,u:1:r,g::-,o::-; setacl a access u::rw,g::-; setacl a access u::rw,u::r,g::-,o::-; setacl a access raw:01; setacl a access raw:03000000; setacl a access raw:0200000001; setacl a access raw:0200000001000f00ffffffff04000000ffffffff20000000ffffffff; setacl a access raw:0200000040000600ffffffff; setacl a access u::rw,u:4294967295:r,g::-,m::r,o::-; getacl a; stat a; setacl a access u::rw,u:5:r,u:5:w,u:2:x,g::-,m::rwx,o::-; getacl a; as 5 5; access a 4; access a 2",
    // Times given by hand.
    "put a x; utimens a 100 200; times a; utimens a omit 300; times a; utimens a 400 omit; times a; utimens a -5 4294967300; times a; symlink a l; utimens l 7 8; times l; times a; mkdir d 755; utimens d 1 2; times d",
    "put a x; chown a 1001 1001; as 1001 1001; utimens a 1 2; times a; as 1002 1002; utimens a now now; as 0 0; chmod a 666; as 1002 1002; utimens a now now; utimens a 3 4; utimens a now omit; utimens a omit omit",
    "hold h a w,creat; write h x; utimens a 1000 2000; times a; drop h; times a; hold h a w; utimens a 1000 2000; drop h; times a; hold h a w; write h y; utimens a 1 2; mark a; write h z; since a; drop h; since a",
    // Locks of flock, two openings of one file.
    "put a x; hold h a r; hold k a r; flock h ex; flock k sh; flock h sh; flock k sh; flock k ex; flock h un; flock k ex; flock h sh",
    // Who asks for another kind of lock has lost the one it had, also when it does not get it.
    "put a x; hold h a r; hold k a r; hold m a r; flock h sh; flock k sh; flock h ex; flock k ex; flock h sh; flock k sh; flock m ex; flock h sh; flock k un; flock m sh; flock h ex; flock m ex",
];

/// What each call does to the three times of a file or of the directory it works in: mark, act, see.
const TIMES: &[(&str, &str, &str)] = &[
    ("put a x", "a", "append a y"),
    ("put a x", "a", "get a"),
    ("put a x", "a", "chmod a 600"),
    ("put a x", "a", "chown a 1001 -1"),
    ("put a x", "a", "chown a -1 -1"),
    ("put a x", "a", "truncate a 5"),
    ("put a x", "a", "link a b"),
    ("put a x; link a b", "a", "unlink b"),
    ("put a x", "a", "rename a b; rename b a"),
    ("put a x", "a", "stat a"),
    ("put a x", "a", "open a r 0"),
    ("put a x", "a", "open a w 0"),
    ("put a x", "a", "open a w,trunc 0"),
    ("put a x", "a", "setxattr a user.x y"),
    ("put a x; setxattr a user.x y", "a", "setxattr a user.x y"),
    ("put a x; setxattr a user.x y", "a", "setxattr a user.x z"),
    ("put a x; setxattr a user.x y", "a", "getxattr a user.x"),
    ("put a x; setxattr a user.x y", "a", "delxattr a user.x"),
    ("put a x", "a", "setacl a access u::rw,u:1:r,g::-,m::r,o::-"),
    ("put a x", "a", "setacl a access u::rw,g::r,o::r"),
    ("put a x", "a", "setacl a access u::rw,g::-,o::-"),
    (
        "put a x; setacl a access u::rw,u:1:r,g::-,m::r,o::-",
        "a",
        "setacl a access u::rw,u:1:r,g::-,m::r,o::-",
    ),
    (
        "put a x; setacl a access u::rw,u:1:r,g::-,m::r,o::-",
        "a",
        "chmod a 640",
    ),
    ("put a x", "a", "getacl a"),
    ("put a x", "a", "delacl a access"),
    (
        "put a x; setacl a access u::rw,u:1:r,g::-,m::r,o::-",
        "a",
        "delacl a access",
    ),
    (
        "mkdir d 755",
        "d",
        "setacl d default u::rw,u:1:r,g::-,m::r,o::-",
    ),
    ("put a x", "a", "utimens a 5 omit"),
    ("put a x", "a", "utimens a omit 5"),
    ("put a x; hold h a rw", "a", "pwrite h 0 z"),
    ("put a x; hold h a rw; pwrite h 0 y", "a", "drop h"),
    ("put a x; hold h a rw; pwrite h 0 y; fsync h", "a", "drop h"),
    // The time of a write is that of the write, whatever comes after it.
    ("put a x; hold h a rw; pwrite h 0 y", "a", "chmod a 600"),
    ("put a x; hold h a w; pwrite h 0 y", "a", "fchmod h 600"),
    ("put a x; hold h a w; pwrite h 0 y", "a", "chown a 1001 -1"),
    ("put a x; hold h a rw; pwrite h 0 y", "a", "link a b"),
    (
        "put a x; hold h a w; pwrite h 0 y",
        "a",
        "setxattr a user.x y",
    ),
    (
        "put a x; hold h a w; pwrite h 0 y",
        "a",
        "rename a b; rename b a",
    ),
    (
        "put a x; hold h a w; pwrite h 0 y; chmod a 600",
        "a",
        "drop h",
    ),
    (
        "put a x; hold h a rw; fallocate h plain 0 9000",
        "a",
        "chmod a 600",
    ),
    ("put a x; hold h a rw", "a", "pread h 0 1"),
    ("put a x; hold h a rw", "a", "ftruncate h 7"),
    ("put a x; hold h a rw", "a", "fallocate h plain 0 100"),
    (
        "put a xyz; hold h a rw; hold k b rw,creat",
        "b",
        "copy h k 0 0 3",
    ),
    ("mkdir d 755", "d", "hold h d rw,tmpfile"),
    ("hold h . rw,tmpfile; linkfd h a", "a", "linkfd h b"),
    ("mkdir d 755; hold h d rw,tmpfile", "d", "linkfd h d/a"),
    ("mkdir d 755; put d/a x", "d", "rename d/a d/b whiteout"),
    ("put a x; setcap a", "a", "append a y"),
    ("symlink a l", "l", "readlink l"),
    ("symlink a l", "l", "stat l"),
    ("mkdir d 755", "d", "put d/a x"),
    ("mkdir d 755", "d", "mkdir d/a 755"),
    ("mkdir d 755", "d", "symlink x d/a"),
    ("mkdir d 755", "d", "mknod d/a fifo 644"),
    ("mkdir d 755; put a x", "d", "link a d/b"),
    ("mkdir d 755; put d/a x", "d", "unlink d/a"),
    ("mkdir d 755; mkdir d/a 755", "d", "rmdir d/a"),
    ("mkdir d 755; put d/a x", "d", "rename d/a d/b"),
    ("mkdir d 755; put d/a x", "d", "rename d/a b"),
    ("mkdir d 755; put a x", "d", "rename a d/b"),
    ("mkdir d 755; put d/a x", "d", "append d/a y"),
    ("mkdir d 755; put d/a x", "d", "ls d"),
    ("mkdir d 755", "d", "stat d/nothing"),
    (
        "mkdir d 755; mkdir e 755",
        "e",
        "rename e d/e; rename d/e e",
    ),
];

fn script(text: &str) -> Vec<String> {
    text.split(';').map(|step| step.trim().to_owned()).collect()
}

/// Runs scripts in fresh directories here and there; gives what differed.
fn differences(ours: &[PathBuf], theirs: &PathBuf, scripts: &[Vec<String>]) -> Vec<String> {
    let mut found = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        // The kernel tells FUSE of the end of an opening in the background, and forgets no inode before that.
        let forgets = script.iter().any(|step| step == "forget");
        let goes = if forgets { 5 } else { 1 };
        let mut result = Ok(());
        for go in 0..goes {
            result = difference(ours, theirs, script, &format!("case{number}-{go}"));
            if result.is_ok() {
                break;
            }
        }
        if let Err(text) = result {
            found.push(format!("script {number}: {text}"));
        }
    }
    found
}

/// Runs a script in fresh directories of this name here and there; an error that says what differed.
fn difference(
    ours: &[PathBuf],
    theirs: &PathBuf,
    script: &[String],
    name: &str,
) -> Result<(), String> {
    let prepare = |root: &PathBuf| {
        let dir = root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&dir, mode).unwrap();
        dir
    };
    let local = actor::run(&[prepare(theirs)], script);
    let here: Vec<PathBuf> = ours.iter().map(prepare).collect();
    let mounted = actor::run(&here, script);
    compare(&mounted, &local)
}

/// Only root can act for several users and make device nodes.
fn as_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        support::skip(test, "not root: users cannot be switched");
    }
    root
}

#[test]
fn every_rule_is_that_of_the_local_file_system() {
    let test = "every_rule_is_that_of_the_local_file_system";
    if !as_root(test) {
        return;
    }
    actor::no_umask();
    for options in [&[][..], &["--no-cache"]] {
        let Some(mut sea) = sea(test, 3) else { return };
        let place = sea.mount(options);
        let local = sea.local_dir("local");
        let mut scripts: Vec<Vec<String>> = RULES.iter().map(|text| script(text)).collect();
        for (before, target, act) in TIMES {
            scripts.push(script(&format!(
                "{before}; mark {target}; {act}; since {target}"
            )));
        }
        let found = differences(&[place], &local, &scripts);
        assert!(found.is_empty(), "{options:?}: {}", found.join("\n\n"));
        sea.check();
    }
}

/// Names that random scripts use; few, so that they meet.
const NAMES: [&str; 9] = ["a", "b", "c", "d", "d/a", "d/b", "e", "e/a", "d/e"];

/// A list about the users of random scripts, mostly a whole one.
fn random_list(random: &mut Random) -> String {
    let rights = |random: &mut Random| {
        ["-", "r", "rw", "rwx", "x", "wx", "rx", "rwx"][random.below(8) as usize]
    };
    let mut list = format!("u::{}", rights(random));
    let mut named = false;
    for (before, tag) in [("", "u"), ("g::", "g")] {
        if !before.is_empty() {
            list += &format!(",{before}{}", rights(random));
        }
        for id in [1001, 1002] {
            if random.below(3) == 0 {
                named = true;
                list += &format!(",{tag}:{id}:{}", rights(random));
            }
        }
    }
    if named != (random.below(10) == 0) {
        list += &format!(",m::{}", rights(random));
    }
    list + &format!(",o::{}", rights(random))
}

fn random_script(random: &mut Random, steps: usize, node: &str) -> Vec<String> {
    let mut script = vec!["mkdir d 777".to_owned(), "mkdir e 1777".to_owned()];
    for _ in 0..steps {
        let mut name = || NAMES[random.below(NAMES.len() as u64) as usize];
        let (one, two) = (name(), name());
        let mode = [
            "644", "600", "666", "755", "4755", "2775", "1777", "000", "711",
        ][random.below(9) as usize];
        let user = [0, 0, 1001, 1002][random.below(4) as usize];
        let size = random.below(100_000);
        let list = random_list(random);
        let kind = ["access", "access", "default"][random.below(3) as usize];
        script.push(match random.below(36) {
            0 | 1 => format!("as {user} {user}"),
            2 => format!("mkdir {one} {mode}"),
            3 => format!("rmdir {one}"),
            4 | 5 => format!("put {one} text{size}"),
            6 => format!("append {one} more{size}"),
            7 | 8 => format!("get {one}"),
            9 | 10 => format!("unlink {one}"),
            11 | 12 => format!("rename {one} {two}"),
            13 => format!("rename {one} {two} exchange"),
            14 => format!("rename {one} {two} noreplace"),
            15 => format!("link {one} {two}"),
            16 => format!("symlink {} {one}", two.replace('/', "_")),
            17 => format!("readlink {one}"),
            18 => format!("chmod {one} {mode}"),
            19 => format!(
                "chown {one} {} {}",
                [-1, 0, 1001][random.below(3) as usize],
                user
            ),
            20 => format!("truncate {one} {size}"),
            21 => format!("mknod {one} {node} {mode}"),
            22 => format!("open {one} rw,creat {mode}"),
            23 => format!("ls {}", ["d", "e"][random.below(2) as usize]),
            24 => format!("access {one} {}", random.below(8)),
            25 => format!("hold h {one} rw,nonblock"),
            26 => format!("pwrite h {size} mark{size}"),
            27 => "fstat h".to_owned(),
            28 | 29 => format!("setacl {one} {kind} {list}"),
            30 => format!("delacl {one} {kind}"),
            31 | 32 => format!("getacl {one}"),
            33 => format!("umask {}", ["0", "22", "77"][random.below(3) as usize]),
            _ => format!("stat {one}"),
        });
    }
    script
}

#[test]
fn random_scripts_give_what_they_give_locally() {
    let test = "random_scripts_give_what_they_give_locally";
    if !as_root(test) {
        return;
    }
    actor::no_umask();
    let Some(mut sea) = sea(test, 4) else { return };
    let place = sea.mount(&[]);
    let local = sea.local_dir("local");
    let mut random = Random::new(support::seed() + 7);
    let scripts: Vec<_> = (0..support::times(40))
        .map(|_| random_script(&mut random, 60, "fifo"))
        .collect();
    let found = differences(&[place], &local, &scripts);
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    sea.check();
}

#[test]
fn two_mounts_in_turn_are_one_file_system() {
    let test = "two_mounts_in_turn_are_one_file_system";
    if !as_root(test) {
        return;
    }
    actor::no_umask();
    let Some(mut sea) = sea(test, 4) else { return };
    let places = [sea.mount(&["--no-cache"]), sea.mount(&["--no-cache"])];
    let local = sea.local_dir("local");
    // Four at a time, each in its own directories and against its own model.
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                let (places, local) = (&places, &local);
                scope.spawn(move || {
                    let mut random = Random::new(support::seed() + 100 + worker);
                    let scripts: Vec<_> = (0..support::times(8))
                        // Sockets: what goes through a FIFO stays on its mount.
                        .map(|_| random_script(&mut random, 60, "socket"))
                        .collect();
                    let name = format!("worker{worker}");
                    let ours: Vec<PathBuf> = places.iter().map(|place| place.join(&name)).collect();
                    differences(&ours, &local.join(&name), &scripts)
                })
            })
            .collect();
        for worker in workers {
            let found = worker.join().unwrap();
            assert!(found.is_empty(), "{}", found.join("\n\n"));
        }
    });
    sea.check();
}
