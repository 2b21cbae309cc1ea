//! The report in a real browser: every chart has visible marks, nothing is loaded from elsewhere,
//! nothing is logged.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use trireme_lab::parameter::Settings;
use trireme_lab::user::Description;
use trireme_lab::{Chart, Progress, Report, output, registry};

/// Counts what is visible; runs in the copy that the test opens, not in the report itself.
const PROBE: &str = r"<script>
const problems = [];
addEventListener('error', e => problems.push(e.message || 'resource ' + e.target.outerHTML), true);
addEventListener('load', () => {
  const seen = m => { const b = m.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
  const charts = [...document.querySelectorAll('figure.chart svg')];
  const empty = charts.filter(c => ![...c.querySelectorAll('rect[class^=s], circle')].some(seen));
  const narrow = document.documentElement.scrollWidth > innerWidth + 1;
  document.body.insertAdjacentHTML('beforeend', '<output>' + JSON.stringify({
    charts: charts.length, empty: empty.length, problems, narrow,
    marks: [...document.querySelectorAll('svg rect[class^=s], svg circle')].filter(seen).length,
    resources: performance.getEntriesByType('resource').filter(r => !r.name.startsWith('data:')).length,
  }) + '</output>');
});
</script>";

fn page() -> String {
    let run = |name: &str| {
        let experiment = registry::find(name).unwrap();
        let mut settings = Settings::new(experiment.parameters);
        settings.seeds = Some(1);
        settings.quick = true;
        experiment.execute(&settings, &Progress::silent()).unwrap()
    };
    let text =
        "title = \"a & b\"\n[file]\nfile_mb = 1\n[sweep]\nmethod = [\"dd\"]\ndisks = [16, 32]";
    let own = Description::parse(text, Path::new(".")).unwrap();
    let mut settings = Settings::new(&[]);
    settings.seeds = Some(1);
    let own = own.run(&settings, &Progress::silent()).unwrap();
    let scatter = Report {
        experiment: "scatter".into(),
        charts: vec![Chart::scatter(
            "s",
            "x",
            "y",
            vec![("a".into(), vec![(1.0, 2.0)])],
        )],
        ..Report::default()
    };
    output::html::render(&[
        run("ddio-table2"),
        run("ddio-fig7"),
        run("ddio-tracks"),
        own,
        scatter,
    ])
}

#[test]
fn the_page_is_self_contained() {
    let page = page();
    for forbidden in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    assert!(page.contains("a &amp; b"));
}

#[test]
fn a_browser_shows_every_chart_and_logs_nothing() {
    let Some(browser) = browser() else {
        let why = "no chromium or google-chrome on this machine (apt-get install chromium)";
        println!("skipped: {why}");
        if let Some(path) = std::env::var_os("TRIREME_SKIPPED")
            && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(path)
        {
            use std::io::Write;
            let _ = writeln!(file, "the report in a browser: {why}");
        }
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("index.html");
    std::fs::write(&file, page().replace("<head>", &format!("<head>{PROBE}"))).unwrap();
    for (size, phone) in [("1200,900", false), ("500,900", true)] {
        let (dom, log) = open(browser, folder.path(), &file, size);
        let found = dom
            .rsplit("<output>")
            .next()
            .and_then(|rest| rest.split("</output>").next());
        let found = found.unwrap_or_else(|| panic!("the page did not load:\n{log}"));
        let found: serde_json::Value = serde_json::from_str(&found.replace("&amp;", "&")).unwrap();
        assert_eq!(found["charts"], 4, "{found}");
        assert_eq!(found["empty"], 0, "{found}");
        assert!(found["marks"].as_u64().unwrap() > 80, "{found}");
        assert_eq!(found["problems"], serde_json::json!([]), "{found}");
        assert_eq!(found["resources"], 0, "{found}");
        assert_eq!(
            found["narrow"], false,
            "wider than the window (phone: {phone}): {found}"
        );
        let console: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert!(console.is_empty(), "{console:?}");
    }
}

fn browser() -> Option<&'static str> {
    let known = ["chromium", "chromium-browser", "google-chrome"];
    known.into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    })
}

/// The page's document after loading, and the browser's log.
fn open(browser: &str, folder: &Path, file: &Path, size: &str) -> (String, String) {
    let (dom, log) = (folder.join("dom"), folder.join("log"));
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--disable-background-networking",
            "--no-first-run",
            "--enable-logging=stderr",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join(format!("profile-{size}")).display()
        ))
        .arg(format!("--window-size={size}"))
        .args(["--dump-dom"])
        .arg(format!("file://{}", file.display()))
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    // The browser ends by itself; a browser that hangs is an error, not a wait.
    let deadline = Instant::now() + Duration::from_mins(2);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the browser did not end within two minutes");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    (
        std::fs::read_to_string(dom).unwrap(),
        String::from_utf8_lossy(&std::fs::read(log).unwrap()).into(),
    )
}
