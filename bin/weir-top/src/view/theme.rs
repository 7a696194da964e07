//! Colours and symbols: 16 terminal colours, or only attributes without colour support. ASCII symbols without UTF-8.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};

use crate::columns::Tone;
use crate::text::ascii;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    pub color: bool,
    pub unicode: bool,
}

impl Theme {
    pub(crate) fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        if !self.color {
            return match tone {
                Tone::Plain | Tone::Good | Tone::Accent => style,
                Tone::Dim => style.add_modifier(Modifier::DIM),
                Tone::Warning => style.add_modifier(Modifier::UNDERLINED),
                Tone::Bad => style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
            };
        }
        match tone {
            Tone::Plain => style,
            Tone::Dim => style.fg(Color::DarkGray),
            Tone::Good => style.fg(Color::Green),
            Tone::Warning => style.fg(Color::Yellow),
            Tone::Bad => style.fg(Color::LightRed).add_modifier(Modifier::BOLD),
            Tone::Accent => style.fg(Color::Cyan),
        }
    }

    pub(crate) fn heading(self) -> Style {
        self.style(Tone::Accent).add_modifier(Modifier::BOLD)
    }

    /// The style of the selected row and of the tab of the open page.
    pub(crate) fn selected(self) -> Style {
        match self.color {
            true => Style::new().fg(Color::White).bg(Color::Blue).add_modifier(Modifier::BOLD),
            false => Style::new().add_modifier(Modifier::REVERSED),
        }
    }

    /// Replaces all characters that a terminal without UTF-8 cannot show. Call it after drawing.
    pub(crate) fn finish(self, buffer: &mut Buffer) {
        if !self.unicode {
            for cell in &mut buffer.content {
                if !cell.symbol().is_ascii() {
                    // A character and its combining marks take one cell.
                    let first = cell
                        .symbol()
                        .chars()
                        .next()
                        .map_or_else(String::new, |c| ascii(c.encode_utf8(&mut [0; 4])));
                    cell.set_symbol(&first);
                }
            }
        }
    }
}
