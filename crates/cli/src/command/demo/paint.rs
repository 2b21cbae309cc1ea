//! Colours in the terminal, one per process, and none where nobody would see them.

use std::io::IsTerminal;

/// Whether to colour, decided once.
#[derive(Clone, Copy)]
pub struct Paint {
    colour: bool,
}

/// Background colours (256-colour palette) that stay apart from each other under black text.
const COLOURS: [u8; 16] = [
    75, 215, 114, 204, 179, 141, 80, 174, 110, 150, 222, 183, 73, 209, 108, 146,
];

impl Paint {
    /// Colours on a terminal, unless `NO_COLOR` is set.
    pub fn for_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            colour: wanted && std::io::stdout().is_terminal(),
        }
    }

    /// No colours.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { colour: false }
    }

    /// `text` on the colour of process or server `owner`.
    pub fn cell(self, owner: usize, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        format!(
            "\x1b[48;5;{};30m{text}\x1b[0m",
            COLOURS[owner % COLOURS.len()]
        )
    }
}
