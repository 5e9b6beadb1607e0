//! A pre-tokenizer taken apart into the cuts it begins with and the rest.
//!
//! A cut makes pieces of a text, and each later step sees one piece at a time: so a piece can go
//! through all of them before the next one is looked for, and short ones that come again need not
//! go at all. As one list of pieces with their offsets, a megabyte of single characters took hundreds.

use std::collections::HashMap;

use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::tokenizer::normalizer::SplitDelimiterBehavior;
use tokenizers::utils::SysRegex;
use tokenizers::{PreTokenizerWrapper, Result};

// What ByteLevel with use_regex cuts by.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const MAX_KNOWN_BYTES: usize = 64;
const MAX_KNOWN: usize = 1 << 16;

/// Every match is a piece, and so is what lies between two.
pub enum Cut {
    Regex(SysRegex),
    Digits,
}

impl Cut {
    fn each<'t>(
        &self,
        text: &'t str,
        mut piece: impl FnMut(&'t str) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        let mut take = |start: usize, end: usize| {
            for range in [done..start, start..end] {
                if !range.is_empty() {
                    piece(&text[range])?;
                }
            }
            done = end;
            Ok::<_, tokenizers::Error>(())
        };
        match self {
            Cut::Regex(regex) => {
                for (start, end) in regex.find_iter(text) {
                    take(start, end)?;
                }
            }
            Cut::Digits => {
                for (at, c) in text.char_indices().filter(|(_, c)| c.is_numeric()) {
                    take(at, at + c.len_utf8())?;
                }
            }
        }
        take(text.len(), text.len())
    }
}

/// The cuts at the beginning, and what is left.
pub fn take_apart(pre_tokenizer: PreTokenizerWrapper) -> Result<(Vec<Cut>, PreTokenizerWrapper)> {
    let mut steps = match pre_tokenizer {
        PreTokenizerWrapper::Sequence(sequence) => sequence.into_iter().collect(),
        single => vec![single],
    };
    let mut cuts = Vec::new();
    let mut n_taken = 0;
    for step in &mut steps {
        match step {
            PreTokenizerWrapper::Split(split)
                if split.behavior == SplitDelimiterBehavior::Isolated && !split.invert =>
            {
                cuts.push(Cut::Regex(split.clone().regex))
            }
            PreTokenizerWrapper::Digits(digits) if digits.individual_digits => {
                cuts.push(Cut::Digits)
            }
            PreTokenizerWrapper::ByteLevel(bytes) if bytes.use_regex && !bytes.add_prefix_space => {
                cuts.push(Cut::Regex(SysRegex::new(GPT2)?));
                *bytes = ByteLevel::new(false, bytes.trim_offsets, false);
                break;
            }
            _ => break,
        }
        n_taken += 1;
    }
    let rest = Sequence::new(steps.split_off(n_taken));
    Ok((cuts, PreTokenizerWrapper::Sequence(rest)))
}

/// One text's way through the cuts. `encode` appends the ids of a piece that is cut no further.
pub struct Pieces<'a, E> {
    cuts: &'a [Cut],
    encode: E,
    /// For each cut, the ids of short pieces that left it.
    known: Vec<HashMap<Box<str>, Box<[i32]>>>,
}

impl<'a, E: FnMut(&str, &mut Vec<i32>) -> Result<()>> Pieces<'a, E> {
    pub fn new(cuts: &'a [Cut], encode: E) -> Self {
        Pieces { cuts, encode, known: cuts.iter().map(|_| HashMap::new()).collect() }
    }

    pub fn run(&mut self, text: &str, ids: &mut Vec<i32>) -> Result<()> {
        self.run_from(0, text, ids)
    }

    fn run_from(&mut self, depth: usize, text: &str, ids: &mut Vec<i32>) -> Result<()> {
        let cuts = self.cuts;
        let Some(cut) = cuts.get(depth) else {
            return (self.encode)(text, ids);
        };
        cut.each(text, |piece| {
            // A whole text is known, if at all, from where it was cut out.
            if piece.len() > MAX_KNOWN_BYTES || (piece.len() == text.len() && depth > 0) {
                return self.run_from(depth + 1, piece, ids);
            }
            if let Some(known) = self.known[depth].get(piece) {
                ids.extend(known.iter());
                return Ok(());
            }
            let start = ids.len();
            self.run_from(depth + 1, piece, ids)?;
            if self.known[depth].len() < MAX_KNOWN {
                self.known[depth].insert(piece.into(), ids[start..].into());
            }
            Ok(())
        })
    }
}
