//! Byte-level BPE as Hugging Face's `tokenizers` does it, put together from its parts: normalizer,
//! pre-tokenizer, model. Its added vocabulary (special and user-defined tokens) is left to the caller:
//! the automaton there starts anew behind each attempt at a match, which takes time quadratic in the
//! length of a token.

use ahash::AHashMap;
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::{
    Model, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType,
    PreTokenizedString, PreTokenizer, PreTokenizerWrapper,
};

use crate::pieces::{self, Cut, Pieces};

// GGUF's token types, as far as they matter here.
const UNKNOWN: u8 = 2;
const CONTROL: u8 = 3;
const UNUSED: u8 = 5;

/// What no user text may spell.
fn is_special(kind: u8) -> bool {
    kind == CONTROL || kind == UNKNOWN
}

/// Texts that are read where they lie, more than once, and may turn out not to be text.
pub trait Texts<'a>: Iterator<Item = Result<&'a str, String>> + Clone {}
impl<'a, T: Iterator<Item = Result<&'a str, String>> + Clone> Texts<'a> for T {}

pub struct Bpe {
    normalizer: Option<NormalizerWrapper>,
    cuts: Vec<Cut>,
    pre_tokenizer: PreTokenizerWrapper,
    model: BPE,
    byte_ids: Vec<Option<i32>>,
}

impl Bpe {
    pub fn new<'a>(
        tokens: impl Texts<'a>,
        kinds: &[u8],
        merges: impl Texts<'a>,
        normalizer: &str,
        pre_tokenizer: &str,
        ignore_merges: bool,
    ) -> Result<Self, String> {
        let normalizer = match normalizer {
            "" => None,
            json => Some(serde_json::from_str(json).map_err(|e| format!("normalizer: {e}"))?),
        };
        let pre_tokenizer =
            serde_json::from_str(pre_tokenizer).map_err(|e| format!("pre-tokenizer: {e}"))?;
        let (cuts, pre_tokenizer) =
            pieces::take_apart(pre_tokenizer).map_err(|e| format!("pre-tokenizer: {e}"))?;

        let model = model(tokens, kinds, merges, ignore_merges)?;
        let byte_ids = byte_alphabet()
            .iter()
            .map(|c| model.token_to_id(c.encode_utf8(&mut [0; 4])).map(|id| id as i32))
            .collect();
        Ok(Bpe { normalizer, cuts, pre_tokenizer, model, byte_ids })
    }

    /// Every byte of the text is plain text.
    pub fn encode(&self, text: &[u8]) -> Result<Vec<i32>, String> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        let mut pieces = Pieces::new(&self.cuts, |piece, ids| self.encode_piece(piece, ids));
        for chunk in text.utf8_chunks() {
            if !chunk.valid().is_empty() {
                self.encode_str(chunk.valid(), &mut pieces, &mut ids).map_err(|e| e.to_string())?;
            }
            // The model knows only UTF-8: what is not stands as the tokens of its bytes.
            ids.extend(chunk.invalid().iter().filter_map(|&b| self.byte_ids[b as usize]));
        }
        Ok(ids)
    }

    fn encode_str(
        &self,
        text: &str,
        pieces: &mut Pieces<impl FnMut(&str, &mut Vec<i32>) -> tokenizers::Result<()>>,
        ids: &mut Vec<i32>,
    ) -> tokenizers::Result<()> {
        let Some(normalizer) = &self.normalizer else {
            return pieces.run(text, ids);
        };
        let mut normalized = NormalizedString::from(text);
        normalizer.normalize(&mut normalized)?;
        pieces.run(normalized.get(), ids)
    }

    fn encode_piece(&self, piece: &str, ids: &mut Vec<i32>) -> tokenizers::Result<()> {
        let mut pieces = PreTokenizedString::from(piece);
        self.pre_tokenizer.pre_tokenize(&mut pieces)?;
        for (piece, _, _) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            ids.extend(self.model.tokenize(piece)?.iter().map(|token| token.id as i32));
        }
        Ok(())
    }
}

/// Special and unused tokens stay out of the model, so that no user text can spell one.
fn model<'a>(
    tokens: impl Texts<'a>,
    kinds: &[u8],
    merges: impl Texts<'a>,
    ignore_merges: bool,
) -> Result<BPE, String> {
    // Of equal texts the first is the token.
    let mut ids = AHashMap::with_capacity(kinds.len());
    for (id, (text, &kind)) in tokens.zip(kinds).enumerate() {
        let text = text?;
        if !is_special(kind) && kind != UNUSED {
            ids.entry(text).or_insert(id as u32);
        }
    }
    check_merges(&ids, merges.clone())?;
    let vocab = ids.into_iter().map(|(text, id)| (text.to_string(), id)).collect::<Vocab>();
    let pairs = merges
        .filter_map(|merge| halves(merge.ok()?))
        .map(|(left, right)| (left.to_string(), right.to_string()))
        .collect();
    BPE::builder()
        .vocab_and_merges(vocab, pairs)
        .ignore_merges(ignore_merges)
        .build()
        .map_err(|e| e.to_string())
}

/// A token never starts with the space that separates the two: it is spelled otherwise.
fn halves(merge: &str) -> Option<(&str, &str)> {
    merge.split_once(' ').filter(|(left, right)| !left.is_empty() && !right.is_empty())
}

/// Checked here, before anything is copied: the library says only after that what is missing.
fn check_merges<'a>(
    known: &AHashMap<&str, u32>,
    merges: impl Texts<'a>,
) -> Result<(), String> {
    let mut both = String::new();
    for (i, merge) in merges.enumerate() {
        let merge = merge?;
        let (left, right) =
            halves(merge).ok_or_else(|| format!("merge {i} ({merge:?}) is not two tokens"))?;
        both.clear();
        both.push_str(left);
        both.push_str(right);
        if let Some(text) = [left, right, &both].iter().find(|&&text| !known.contains_key(text)) {
            return Err(format!("merge {i} ({merge:?}): {text:?} is no token to merge"));
        }
    }
    Ok(())
}

/// The character that stands for each byte: printable Latin-1 for itself, the others from U+0100
/// on in order (GPT-2's alphabet).
fn byte_alphabet() -> Vec<char> {
    let mut next = 0x100;
    (0..=255u32)
        .map(|byte| match byte {
            0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => char::from_u32(byte).unwrap(),
            _ => {
                next += 1;
                char::from_u32(next - 1).unwrap()
            }
        })
        .collect()
}
