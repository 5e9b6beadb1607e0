//! Where Jinja in Python shows Python: how values print, JSON, methods of str, the clock.

use minijinja::value::{from_args, Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, Value};

// Python gives up at about this depth too; values can be nested as deep as the fuel reaches.
const MAX_DEPTH: usize = 500;

pub fn install(env: &mut Environment<'static>) {
    env.set_formatter(|out: &mut Output, _: &State, value: &Value| {
        out.write_str(&text(value)?).map_err(Error::from)
    });
    env.set_unknown_method_callback(|state, value, method, args| {
        match (value.as_str(), method) {
            (Some(s), "strip" | "lstrip" | "rstrip") if strips_whitespace(args) => {
                Ok(Value::from(strip(s, method != "rstrip", method != "lstrip")))
            }
            _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
        }
    });
    env.add_filter("string", |value: &Value| text(value));
    env.add_filter("tojson", tojson);
    env.add_filter("trim", |state: &State, value: &Value, chars: Option<Value>| match chars {
        None => Ok(Value::from(strip(&text(value)?, true, true))),
        Some(chars) => minijinja_contrib::pycompat::unknown_method_callback(
            state,
            &Value::from(text(value)?),
            "strip",
            &[chars],
        ),
    });
    // None passes for an empty list in minijinja.
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env.add_function("strftime_now", strftime_now);
}

fn strips_whitespace(args: &[Value]) -> bool {
    args.is_empty() || (args.len() == 1 && args[0].is_none())
}

/// What str.strip() removes: Unicode's white space and the four information separators.
fn strip(s: &str, left: bool, right: bool) -> &str {
    let space = |c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
    let s = if left { s.trim_start_matches(space) } else { s };
    if right {
        s.trim_end_matches(space)
    } else {
        s
    }
}

/// str(value)
fn text(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    match value.as_str() {
        Some(s) => out.push_str(s),
        None if value.is_undefined() => {}
        None => repr(value, 0, &mut out)?,
    }
    Ok(out)
}

/// repr(value), for what JSON can hold; objects of the template engine print as it likes.
fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => out.push_str(&number(value)),
        ValueKind::String => repr_str(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            out.push('[');
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(&key, depth + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn too_deep() -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("a value is nested deeper than {MAX_DEPTH}"))
}

fn repr_str(s: &str, out: &mut String) {
    let quote = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in s.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => out.push_str(&match c as u32 {
                code @ ..=0xff => format!("\\x{code:02x}"),
                code @ ..=0xffff => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            }),
        }
    }
    out.push(quote);
}

/// What Python shows as it is. Rust's debug form escapes the same characters, and combining ones
/// only at the beginning of a string.
fn is_printable(c: char) -> bool {
    c.is_ascii_graphic() || c == ' ' || !format!("x{c}").escape_debug().nth(1).is_some_and(|e| e == '\\')
}

/// repr() of an int or a float: shortest digits, an exponent from 1e16 and below 1e-4.
fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(x) = f64::try_from(value.clone()) else { return value.to_string() };
    if x.is_nan() {
        return "nan".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    if x == 0.0 || (1e-4..1e16).contains(&x.abs()) {
        return format!("{x:?}");
    }
    let (digits, exponent) = match format!("{x:e}").split_once('e') {
        Some((digits, exponent)) => (digits.to_string(), exponent.parse::<i32>().unwrap_or(0)),
        None => return format!("{x:?}"),
    };
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)
fn tojson(value: &Value, args: minijinja::value::Rest<Value>) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], Kwargs) = from_args(&args)?;
    let option = |name: &str, position: usize| -> Result<Value, Error> {
        let named: Option<Value> = kwargs.get(name)?;
        Ok(named.or_else(|| positional.get(position).cloned()).unwrap_or_default())
    };
    let ensure_ascii = option("ensure_ascii", 0)?.is_true();
    let indent = match option("indent", 1)? {
        v if v.is_none() || v.is_undefined() => None,
        v if v.as_str().is_some() => v.as_str().map(str::to_string),
        v => {
            let width = i64::try_from(v)?.max(0) as usize;
            if width > 1000 {
                return Err(Error::new(ErrorKind::InvalidOperation, "tojson: indent is too wide"));
            }
            Some(" ".repeat(width))
        }
    };
    let separators = option("separators", 2)?;
    let separator = |i: usize, otherwise: &str| match separators.get_item_by_index(i) {
        Ok(v) if v.as_str().is_some() => v.to_string(),
        _ => otherwise.to_string(),
    };
    let json = Json {
        ensure_ascii,
        item: separator(0, if indent.is_some() { "," } else { ", " }),
        colon: separator(1, ": "),
        indent,
        sort_keys: option("sort_keys", 3)?.is_true(),
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    json.write(value, 0, &mut out)?;
    Ok(Value::from(out))
}

struct Json {
    ensure_ascii: bool,
    indent: Option<String>,
    item: String,
    colon: String,
    sort_keys: bool,
}

impl Json {
    fn write(&self, value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(match number(value).as_str() {
                "nan" => "NaN",
                "inf" => "Infinity",
                "-inf" => "-Infinity",
                finite => finite,
            }),
            ValueKind::String => self.write_str(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                out.push('[');
                let mut empty = true;
                for item in value.try_iter()? {
                    self.next_item(&mut empty, depth + 1, out);
                    self.write(&item, depth + 1, out)?;
                }
                self.close(']', empty, depth, out);
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                out.push('{');
                let mut empty = true;
                for key in keys {
                    self.next_item(&mut empty, depth + 1, out);
                    match key.kind() {
                        ValueKind::String => self.write_str(key.as_str().unwrap_or_default(), out),
                        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
                            let mut text = String::new();
                            self.write(&key, depth + 1, &mut text)?;
                            self.write_str(&text, out);
                        }
                        _ => return Err(not_json("a key", &key)),
                    }
                    out.push_str(&self.colon);
                    self.write(&value.get_item(&key)?, depth + 1, out)?;
                }
                self.close('}', empty, depth, out);
            }
            _ => return Err(not_json("a value", value)),
        }
        Ok(())
    }

    fn next_item(&self, empty: &mut bool, depth: usize, out: &mut String) {
        if !*empty {
            out.push_str(&self.item);
        }
        *empty = false;
        self.new_line(depth, out);
    }

    fn close(&self, bracket: char, empty: bool, depth: usize, out: &mut String) {
        if !empty {
            self.new_line(depth, out);
        }
        out.push(bracket);
    }

    fn new_line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = &self.indent {
            out.push('\n');
            out.push_str(&indent.repeat(depth));
        }
    }

    fn write_str(&self, s: &str, out: &mut String) {
        out.push('"');
        for c in s.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if (c as u32) < 0x20 || (self.ensure_ascii && (c as u32) > 0x7e) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn not_json(what: &str, value: &Value) -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("tojson: {what} of type {} has no JSON", value.kind()),
    )
}

/// datetime.now().strftime(format)
fn strftime_now(format: String) -> Result<String, Error> {
    let fail = || Error::new(ErrorKind::InvalidOperation, "strftime_now: the format cannot be used");
    let mut pattern = format.into_bytes();
    if pattern.is_empty() {
        return Ok(String::new());
    }
    // A result may be empty without being a failure (%p in some locales): a mark tells them apart.
    pattern.extend(b"|\0");
    if pattern.len() > 256 || pattern[..pattern.len() - 1].contains(&0) {
        return Err(fail());
    }
    let mut text = vec![0u8; 4096];
    // SAFETY: the pattern ends in a zero, `text` has the length given, `now` is set by localtime_r.
    let written = unsafe {
        let clock = libc::time(std::ptr::null_mut());
        let mut now: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&clock, &mut now).is_null() {
            return Err(fail());
        }
        libc::strftime(text.as_mut_ptr().cast(), text.len(), pattern.as_ptr().cast(), &now)
    };
    if written == 0 {
        return Err(fail());
    }
    text.truncate(written - 1);
    String::from_utf8(text).map_err(|_| fail())
}
