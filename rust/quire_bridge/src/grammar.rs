//! Grammars that an answer must follow (JSON schema, regular expression, Lark), by llguidance: which
//! tokens may come next, as a set of bits. They come from clients, so every cost has a limit.

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};

// A schema of a large API has some 100 KiB.
const MAX_SOURCE_BYTES: usize = 256 << 10;

// A line's end and the indentation behind it.
const WHITE_SPACE: &str = r"[\x20\x0A\x0D\x09]{1,24}";

#[derive(Clone, Copy)]
pub enum Kind {
    JsonSchema,
    Regex,
    Lark,
}

/// The tokens of one model, to compile grammars for.
pub struct Factory(ParserFactory);

impl Factory {
    /// `tokens`: the bytes each stands for, none for special ones. `ends`: tokens that end an
    /// answer, at least one.
    pub fn new(tokens: &[Vec<u8>], ends: &[u32]) -> Result<Self, String> {
        let Some(&end) = ends.first() else {
            return Err("the vocabulary has no token that ends an answer".to_string());
        };
        let info = TokRxInfo::new(tokens.len() as u32, end);
        let trie = TokTrie::from(&info, tokens).with_eos_tokens(ends);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&environment).map_err(|e| e.to_string())?;
        factory.quiet();
        let limits = factory.limits_mut();
        limits.verbose_errors = false;
        // Times and bytes as the library gives them.
        limits.initial_lexer_fuel = 500_000; // 10 ms
        limits.max_lexer_states = 20_000; // 40 MB
        limits.max_grammar_size = 200_000;
        // 3 ms of a step that everybody waits for.
        limits.step_lexer_fuel = 50_000;
        limits.step_max_items = 20_000;
        limits.precompute_large_lexemes = false;
        Ok(Factory(factory))
    }

    pub fn compile(&self, kind: Kind, source: &str) -> Result<Grammar, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(format!(
                "it is {} bytes long, more than the {MAX_SOURCE_BYTES} allowed",
                source.len()
            ));
        }
        let grammar = match kind {
            Kind::JsonSchema => TopLevelGrammar::from_json_schema(schema(source)?),
            Kind::Regex => TopLevelGrammar::from_regex(source),
            Kind::Lark => TopLevelGrammar::from_lark(source.to_string()),
        };
        let mut matcher = Matcher::new(self.0.create_parser(grammar));
        match matcher.get_error() {
            Some(error) => Err(one_line(&error)),
            None => {
                matcher.compute_mask().map_err(|e| one_line(&e.to_string()))?;
                Ok(Grammar(matcher))
            }
        }
    }
}

/// The schema, with white space bounded unless it says otherwise: a small model may not find its way
/// out of blanks, and all of them are valid JSON.
fn schema(source: &str) -> Result<serde_json::Value, String> {
    let mut schema: serde_json::Value =
        serde_json::from_str(source).map_err(|e| format!("it is not JSON: {e}"))?;
    if let Some(object) = schema.as_object_mut() {
        object
            .entry("x-guidance")
            .or_insert_with(|| serde_json::json!({"whitespace_pattern": WHITE_SPACE}));
    }
    Ok(schema)
}

/// How far one answer has followed its grammar.
pub struct Grammar(Matcher);

impl Grammar {
    pub fn fork(&self) -> Grammar {
        Grammar(self.0.deep_clone())
    }

    /// Bit t of `bits` (32 to a word, lowest first) says whether token t may come next. Tokens that
    /// end the answer may where the grammar is complete.
    pub fn allowed(&mut self, bits: &mut [u32]) -> Result<(), String> {
        let mask = self.0.compute_mask_or_eos().map_err(|e| one_line(&e.to_string()))?;
        bits.fill(0);
        let words = mask.as_slice();
        let n = words.len().min(bits.len());
        bits[..n].copy_from_slice(&words[..n]);
        Ok(())
    }

    pub fn accept(&mut self, token: u32) -> Result<(), String> {
        self.0.consume_token(token).map_err(|e| one_line(&e.to_string()))
    }

    /// Nothing may follow.
    pub fn is_complete(&self) -> bool {
        self.0.is_stopped()
    }
}

fn one_line(text: &str) -> String {
    // What the library leaves of an explanation that it was told not to give.
    let text = text.split("<non-verbose").next().unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() < 20 { format!("no answer can follow it ({line})") } else { line }
}
