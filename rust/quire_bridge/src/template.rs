//! Chat templates as `transformers` renders them (Jinja with `trim_blocks`, `lstrip_blocks`, loop
//! controls, the `generation` tag and a few functions), from files that nobody vouches for.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value};

use crate::guard::{self, Budget, Stopped};

mod python;

// Real ones have some KiB. The parser recurses in places where it counts no depth.
const MAX_SOURCE_BYTES: usize = 64 << 10;
// Known ones take less than 1 ms; as long a one of short statements as is allowed, 4 ms and 3 MB.
const MAX_PARSE_MS: u32 = 50;
const PARSE_BASE_BYTES: usize = 4 << 20;
const PARSE_BYTES_PER_BYTE: usize = 64;
// Each level of recursion costs up to several KiB of the guard's stack.
const MAX_DEPTH: usize = 200;
// See the stack of `guard`.
const MAX_FUEL: u64 = 1_000_000;
// What a render may hold grows with what it is given: a short message is no reason for 100 MiB.
const BASE_MEMORY_BYTES: usize = 24 << 20;
const MEMORY_PER_INPUT_BYTE: usize = 32;
// A render that is left behind keeps what it holds, at most its budget. After so many the template is
// refused for good; not after the first, which a strange conversation may have caused.
const MAX_STRANDED: usize = 3;
const MAX_CAUSE_CHARS: usize = 300;
const NAME: &str = "chat template";

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Limits {
    fuel: u64,
    output_bytes: usize,
    memory_bytes: usize,
    milliseconds: u32,
}

impl Limits {
    /// For a context of that many bytes.
    fn scaled(self, input_bytes: usize) -> Limits {
        let memory = input_bytes.saturating_mul(MEMORY_PER_INPUT_BYTE);
        let memory_bytes = self.memory_bytes.min(memory.saturating_add(BASE_MEMORY_BYTES));
        Limits { memory_bytes, ..self }
    }

    fn budget(&self) -> Budget {
        Budget {
            memory_bytes: self.memory_bytes,
            time: Duration::from_millis(self.milliseconds.into()),
        }
    }
}

pub struct Template {
    environment: Arc<Environment<'static>>,
    limits: Limits,
    /// Renders that had to be left behind.
    stranded: AtomicUsize,
}

impl Template {
    pub fn new(source: String, bos: String, eos: String, limits: Limits) -> Result<Self, String> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(format!(
                "the chat template is {} bytes long, more than the {MAX_SOURCE_BYTES} allowed",
                source.len()
            ));
        }
        // Constants are computed while parsing: 'a' * 100000000 is as long as it says.
        let parsing = Limits {
            milliseconds: limits.milliseconds.min(MAX_PARSE_MS),
            memory_bytes: limits.memory_bytes.min(PARSE_BASE_BYTES + PARSE_BYTES_PER_BYTE * source.len()),
            ..limits
        };
        let compiled = guard::run(parsing.budget(), move || {
            let mut environment = environment(&limits, bos, eos);
            environment
                .add_template_owned(NAME, without_generation_tags(&source))
                .map_err(|e| sentence("the chat template cannot be parsed", &e))?;
            Ok::<_, String>(environment)
        });
        let environment = compiled.map_err(|why| refusal(&why, &parsing))??;
        Ok(Template {
            environment: Arc::new(environment),
            limits,
            stranded: AtomicUsize::new(0),
        })
    }

    pub fn render(&self, context_json: String) -> Result<String, String> {
        if self.stranded.load(Ordering::Relaxed) >= MAX_STRANDED {
            return Err("the chat template used up its limits too often and stays refused".to_string());
        }
        let environment = self.environment.clone();
        let max_bytes = self.limits.output_bytes;
        let limits = self.limits.scaled(context_json.len());
        let rendered = guard::run(limits.budget(), move || {
            let context: serde_json::Value = serde_json::from_str(&context_json)
                .map_err(|e| format!("the template's context is not JSON: {e}"))?;
            if !context.is_object() {
                return Err("the template's context is not a JSON object".to_string());
            }
            let mut output = Bounded { text: Vec::new(), max_bytes };
            environment
                .get_template(NAME)
                .and_then(|t| t.render_captured_to(Value::from_serialize(&context), &mut output))
                .map_err(|e| match e.kind() {
                    ErrorKind::WriteFailure => {
                        format!("the chat template's output exceeds {max_bytes} bytes")
                    }
                    ErrorKind::OutOfFuel => "the chat template runs for too long".to_string(),
                    _ => sentence("the chat template failed", &e),
                })?;
            String::from_utf8(output.text).map_err(|e| e.to_string())
        });
        rendered.map_err(|why| {
            if why == Stopped::Memory || why == Stopped::Time {
                self.stranded.fetch_add(1, Ordering::Relaxed);
            }
            refusal(&why, &limits)
        })?
    }
}

fn environment(limits: &Limits, bos: String, eos: String) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_trim_blocks(true);
    env.set_lstrip_blocks(true);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    env.set_fuel(Some(limits.fuel.min(MAX_FUEL)));
    env.set_recursion_limit(MAX_DEPTH);
    python::install(&mut env);
    env.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    env.add_global("bos_token", bos);
    env.add_global("eos_token", eos);
    // transformers always passes these; a template may ask `is not none` without `is defined`.
    env.add_global("tools", Value::from(()));
    env.add_global("documents", Value::from(()));
    env.add_global("add_generation_prompt", false);
    env
}

/// `{% generation %}` only marks what the assistant said, so it becomes a plain scope.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = tag.find("%}") else {
            rest = tag;
            break;
        };
        let inside = &tag[2..end];
        let marks = |c: char| c == '-' || c == '+' || c.is_whitespace();
        match inside.trim_matches(marks) {
            "generation" => out.push_str(&format!("{{%{}%}}", inside.replace("generation", "with"))),
            "endgeneration" => {
                out.push_str(&format!("{{%{}%}}", inside.replace("endgeneration", "endwith")))
            }
            _ => out.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    out.push_str(rest);
    out
}

/// One sentence: what happened, where, and the cause that lies deepest.
fn sentence(what: &str, error: &Error) -> String {
    let line = error.line().map(|n| format!(" in line {n}")).unwrap_or_default();
    let mut cause = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        cause = inner.to_string();
        source = inner.source();
    }
    if let Some(detail) = error.detail().filter(|_| std::error::Error::source(error).is_none()) {
        cause = detail.to_string();
    }
    let mut cause = cause.replace(['\n', '\r'], " ");
    // A template may raise a text of its own, as long as it likes.
    if let Some((end, _)) = cause.char_indices().nth(MAX_CAUSE_CHARS) {
        cause.truncate(end);
        cause.push_str("...");
    }
    format!("{what}{line}: {cause}")
}

fn refusal(why: &Stopped, limits: &Limits) -> String {
    match why {
        Stopped::Memory => {
            format!("the chat template needs more than {} bytes of memory", limits.memory_bytes)
        }
        Stopped::Time => format!("the chat template runs longer than {} ms", limits.milliseconds),
        Stopped::Panic => "the chat template makes the template engine fail".to_string(),
        Stopped::NoThread => "no thread can be started for the chat template".to_string(),
    }
}

struct Bounded {
    text: Vec<u8>,
    max_bytes: usize,
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.max_bytes - self.text.len() {
            return Err(io::Error::other("too long"));
        }
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
