//! What is new in a file since it was last looked at.

use weir_sync::ring::file::Image;

/// How far a file was read.
#[derive(Debug, Default)]
pub struct Follower {
    /// The tag behind the last message that was read; none before the first.
    place: Option<usize>,
}

/// What a look brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Messages, oldest first.
    pub messages: Vec<Vec<u8>>,
    /// Whether some were overwritten before they were seen.
    pub lost: bool,
    /// Whether something in between is no message.
    pub damaged: bool,
}

impl Follower {
    /// Looks at a file. `head` is where its oldest message was after it was read: older ones were perhaps overwritten
    /// during the reading, and are not looked at.
    pub fn look(&mut self, image: &Image<'_>, head: Option<usize>) -> News {
        let mut news = News::default();
        let begin = self.beginning(image, head, &mut news);
        let mut messages = image.messages_from(begin);
        let mut place = begin;
        for entry in messages.by_ref() {
            match entry.bytes {
                Some(bytes) => news.messages.push(bytes),
                // It is being written, or never will be: what is behind it can be read.
                None if self.place.is_none() => {}
                None => break,
            }
            place = entry.behind;
        }
        news.damaged = messages.is_damaged();
        self.place = Some(place);
        news
    }

    /// Where to begin: at the last place if it still is one, else at the oldest message.
    fn beginning(&self, image: &Image<'_>, head: Option<usize>, news: &mut News) -> usize {
        let places: Vec<usize> = {
            let mut messages = image.messages();
            let mut places: Vec<usize> = messages.by_ref().map(|entry| entry.place).collect();
            places.push(messages.place());
            places
        };
        let oldest = head.filter(|head| places.contains(head)).unwrap_or(image.head);
        let first = places.iter().position(|place| *place == oldest).unwrap_or(0);
        match self.place {
            None => oldest,
            Some(place) if places[first..].contains(&place) => place,
            Some(_) => {
                news.lost = true;
                oldest
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use weir_sync::Ring;

    struct File {
        ring: Arc<Ring>,
        path: std::path::PathBuf,
        follower: Follower,
        _folder: tempfile::TempDir,
    }

    impl File {
        fn new() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("ring");
            let ring = Ring::in_file(&path, 1024, 6).expect("a file");
            File { ring, path, follower: Follower::default(), _folder: folder }
        }

        fn look(&mut self) -> (Vec<String>, bool) {
            let bytes = std::fs::read(&self.path).expect("the file is there");
            let image = Image::open(&bytes).expect("it is a ring");
            let news = self.follower.look(&image, Some(image.head));
            assert!(!news.damaged);
            let messages = news.messages.into_iter().map(|bytes| String::from_utf8(bytes).expect("text"));
            (messages.collect(), news.lost)
        }
    }

    #[test]
    fn each_look_brings_what_is_new() {
        let mut file = File::new();
        assert_eq!(file.look(), (vec![], false));
        file.ring.write(0, &[b"one"]);
        file.ring.write(0, &[b"two"]);
        assert_eq!(file.look(), (vec!["one".to_owned(), "two".to_owned()], false));
        assert_eq!(file.look(), (vec![], false));
        file.ring.write(0, &[b"three"]);
        assert_eq!(file.look(), (vec!["three".to_owned()], false));
    }

    #[test]
    fn what_was_overwritten_is_said_to_be_lost() {
        let mut file = File::new();
        file.ring.write(0, &[b"seen"]);
        file.look();
        // Each look but the first sees a part, in order, and says that others were lost.
        let mut last = 0;
        for round in 0..20 {
            for number in 0..100 {
                file.ring.write(0, &[format!("{}", 1 + round * 100 + number).as_bytes()]);
            }
            let (messages, lost) = file.look();
            let numbers: Vec<u32> = messages.iter().map(|text| text.parse().expect("a number")).collect();
            assert!(numbers.is_sorted() && numbers[0] > last && numbers.len() > 10, "{numbers:?}");
            assert_eq!(lost, numbers[0] != last + 1, "{last} {}", numbers[0]);
            last = *numbers.last().expect("there are some");
        }
    }
}
