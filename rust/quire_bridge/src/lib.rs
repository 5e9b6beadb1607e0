//! Byte-level BPE and chat templates behind the C header `include/quire_bridge.h`, which states
//! the contract. This file is the boundary; `bpe` and `template` know nothing of C.

mod bpe;
mod grammar;
mod guard;
mod pieces;
mod template;

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

#[global_allocator]
static ALLOCATOR: guard::GuardedAllocator = guard::GuardedAllocator;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    data: *const u8,
    size: usize,
}

impl Str {
    /// # Safety
    /// `data` must point to `size` readable bytes that outlive `'a`.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    /// # Safety
    /// As `bytes`.
    unsafe fn utf8<'a>(self, what: &str) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()).map_err(|_| format!("{what} is not valid UTF-8"))
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Texts {
    items: *const c_void,
    at: extern "C" fn(*const c_void, usize) -> Str,
    size: usize,
}

impl Texts {
    /// # Safety
    /// Every text must be readable and outlive `'a`.
    unsafe fn bytes<'a>(self) -> Vec<&'a [u8]> {
        (0..self.size).map(|i| unsafe { (self.at)(self.items, i).bytes() }).collect()
    }

    /// Each text, checked when it is reached.
    ///
    /// # Safety
    /// As above.
    unsafe fn iter<'a>(self, what: &'a str) -> impl Iterator<Item = Result<&'a str, String>> + Clone {
        (0..self.size).map(move |i| {
            let text = (self.at)(self.items, i);
            // SAFETY: as this function asks.
            std::str::from_utf8(unsafe { text.bytes() })
                .map_err(|_| format!("{what} {i} is not valid UTF-8"))
        })
    }
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
    capacity: usize,
}

#[repr(C)]
pub struct Ids {
    data: *mut i32,
    size: usize,
    capacity: usize,
}

macro_rules! owned_array {
    ($name:ident, $item:ty) => {
        impl From<Vec<$item>> for $name {
            fn from(items: Vec<$item>) -> Self {
                let mut items = std::mem::ManuallyDrop::new(items);
                $name {
                    data: items.as_mut_ptr(),
                    size: items.len(),
                    capacity: items.capacity(),
                }
            }
        }

        impl $name {
            const EMPTY: Self = $name {
                data: std::ptr::null_mut(),
                size: 0,
                capacity: 0,
            };

            /// # Safety
            /// The fields must be as `from` made them.
            unsafe fn release(&mut self) {
                if !self.data.is_null() {
                    drop(Vec::from_raw_parts(self.data, self.size, self.capacity));
                }
                *self = Self::EMPTY;
            }
        }
    };
}
owned_array!(Buffer, u8);
owned_array!(Ids, i32);

#[repr(C)]
pub struct BpeSpec {
    tokens: Texts,
    kinds: *const u8,
    merges: Texts,
    normalizer: Str,
    pre_tokenizer: Str,
    ignore_merges: bool,
}

/// Runs `body`; a panic becomes an error too. Its message would go to standard error, which
/// belongs to the program, so the hook of this library's own runtime is silenced.
fn guarded<T>(body: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let what = payload
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(format!("internal error: {what}"))
    })
}

/// # Safety
/// `out` and `error` must be writable.
unsafe fn deliver<T, U: From<T>>(result: Result<T, String>, out: *mut U, error: *mut Buffer) -> bool {
    match result {
        Ok(value) => {
            out.write(U::from(value));
            true
        }
        Err(message) => {
            error.write(Buffer::from(message.into_bytes()));
            false
        }
    }
}

/// # Safety
/// `error` must be writable.
unsafe fn settle(result: Result<(), String>, error: *mut Buffer) -> bool {
    match result {
        Ok(()) => true,
        Err(message) => {
            error.write(Buffer::from(message.into_bytes()));
            false
        }
    }
}

/// A handle as the C side sees it.
#[repr(transparent)]
pub struct Handle<T>(*mut T);

impl<T> From<T> for Handle<T> {
    fn from(value: T) -> Self {
        Handle(Box::into_raw(Box::new(value)))
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_bpe_new(
    spec: *const BpeSpec,
    out: *mut Handle<bpe::Bpe>,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| {
        let spec = &*spec;
        let kinds = match spec.tokens.size {
            0 => &[][..],
            n => std::slice::from_raw_parts(spec.kinds, n),
        };
        bpe::Bpe::new(
            spec.tokens.iter("token"),
            kinds,
            spec.merges.iter("merge"),
            spec.normalizer.utf8("the normalizer")?,
            spec.pre_tokenizer.utf8("the pre-tokenizer")?,
            spec.ignore_merges,
        )
    });
    deliver(result, out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_bpe_encode(
    bpe: *const bpe::Bpe,
    text: Str,
    out: *mut Ids,
    error: *mut Buffer,
) -> bool {
    deliver(guarded(|| (*bpe).encode(text.bytes())), out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_bpe_free(bpe: *mut bpe::Bpe) {
    if !bpe.is_null() {
        let _ = guarded(|| Ok(drop(Box::from_raw(bpe))));
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_template_new(
    source: Str,
    bos_token: Str,
    eos_token: Str,
    limits: *const template::Limits,
    out: *mut Handle<template::Template>,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| {
        template::Template::new(
            source.utf8("the chat template")?.to_string(),
            bos_token.utf8("the BOS token")?.to_string(),
            eos_token.utf8("the EOS token")?.to_string(),
            *limits,
        )
    });
    deliver(result, out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_template_render(
    tmpl: *const template::Template,
    context_json: Str,
    out: *mut Buffer,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| {
        let text = (*tmpl).render(context_json.utf8("the template's context")?.to_string())?;
        Ok(text.into_bytes())
    });
    deliver(result, out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_template_free(tmpl: *mut template::Template) {
    if !tmpl.is_null() {
        let _ = guarded(|| Ok(drop(Box::from_raw(tmpl))));
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammars_new(
    tokens: Texts,
    ends: *const i32,
    n_ends: usize,
    out: *mut Handle<grammar::Factory>,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| {
        let tokens = tokens.bytes().into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let ends = match n_ends {
            0 => Vec::new(),
            n => std::slice::from_raw_parts(ends, n).iter().map(|&id| id as u32).collect(),
        };
        grammar::Factory::new(&tokens, &ends)
    });
    deliver(result, out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammars_free(grammars: *mut grammar::Factory) {
    if !grammars.is_null() {
        let _ = guarded(|| Ok(drop(Box::from_raw(grammars))));
    }
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_new(
    grammars: *const grammar::Factory,
    kind: u8,
    source: Str,
    out: *mut Handle<grammar::Grammar>,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| {
        let kind = match kind {
            0 => grammar::Kind::JsonSchema,
            1 => grammar::Kind::Regex,
            _ => grammar::Kind::Lark,
        };
        (*grammars).compile(kind, source.utf8("it")?)
    });
    deliver(result, out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_fork(
    grammar: *const grammar::Grammar,
    out: *mut Handle<grammar::Grammar>,
    error: *mut Buffer,
) -> bool {
    deliver(guarded(|| Ok((*grammar).fork())), out, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_allowed(
    grammar: *mut grammar::Grammar,
    bits: *mut u32,
    n_words: usize,
    error: *mut Buffer,
) -> bool {
    let result = guarded(|| (*grammar).allowed(std::slice::from_raw_parts_mut(bits, n_words)));
    settle(result, error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_accept(
    grammar: *mut grammar::Grammar,
    token: i32,
    error: *mut Buffer,
) -> bool {
    settle(guarded(|| (*grammar).accept(token as u32)), error)
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_is_complete(grammar: *const grammar::Grammar) -> bool {
    (*grammar).is_complete()
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_grammar_free(grammar: *mut grammar::Grammar) {
    if !grammar.is_null() {
        let _ = guarded(|| Ok(drop(Box::from_raw(grammar))));
    }
}

#[no_mangle]
pub extern "C" fn quire_on_out_of_memory(handler: extern "C" fn()) {
    guard::on_out_of_memory(handler);
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_buffer_free(buffer: *mut Buffer) {
    (*buffer).release();
}

/// # Safety
/// As the header says.
#[no_mangle]
pub unsafe extern "C" fn quire_ids_free(ids: *mut Ids) {
    (*ids).release();
}
