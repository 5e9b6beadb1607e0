#pragma once
// The C face of the Rust library: byte-level BPE (Hugging Face tokenizers) and chat templates
// (minijinja). Every function is safe to call from any thread, on one handle at once too, and none
// lets a panic out: failures come back as `false` with a sentence in `error`.
//
// Ownership: a handle belongs to the caller until its _free. A quire_buffer or quire_ids that a
// function filled belongs to the caller until its _free; both may be freed when empty. A quire_str
// is borrowed for the duration of the call only. On failure nothing but `error` is filled.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct quire_bpe quire_bpe;
typedef struct quire_template quire_template;

/// Borrowed bytes; data may be null when size is 0.
typedef struct {
  const char* data;
  size_t size;
} quire_str;

/// Owned bytes, not terminated by a zero.
typedef struct {
  char* data;
  size_t size;
  size_t capacity;
} quire_buffer;

/// Owned token ids.
typedef struct {
  int32_t* data;
  size_t size;
  size_t capacity;
} quire_ids;

/// A list of borrowed texts wherever the caller keeps them: text i is at(items, i).
typedef struct {
  const void* items;
  quire_str (*at)(const void* items, size_t i);
  size_t size;
} quire_texts;

typedef struct {
  quire_texts tokens;       // the text of token i, in the byte-level alphabet where it is ordinary
  const uint8_t* kinds;     // GGUF token types, one for each token
  quire_texts merges;       // "left right", best first
  quire_str normalizer;     // a "normalizer" of Hugging Face's tokenizer.json, or empty
  quire_str pre_tokenizer;  // a "pre_tokenizer" of the same
  bool ignore_merges;       // a piece that is a token as it stands needs no merges
} quire_bpe_spec;

bool quire_bpe_new(const quire_bpe_spec* spec, quire_bpe** out, quire_buffer* error);
/// All of the text is plain: special and user-defined tokens are found by the caller. Bytes that
/// are not UTF-8 are encoded one by one.
bool quire_bpe_encode(const quire_bpe* bpe, quire_str text, quire_ids* out, quire_buffer* error);
void quire_bpe_free(quire_bpe* bpe);

/// What a template may use before it is refused.
typedef struct {
  uint64_t fuel;          // virtual machine instructions, at most a million
  size_t output_bytes;    // of rendered text
  size_t memory_bytes;    // alive at once, the output included
  uint32_t milliseconds;  // of wall time
} quire_template_limits;

/// bos_token and eos_token are variables of the template, like everything else
/// transformers.apply_chat_template passes by itself.
bool quire_template_new(quire_str source, quire_str bos_token, quire_str eos_token,
                        const quire_template_limits* limits, quire_template** out,
                        quire_buffer* error);
/// context_json is an object: the variables of the template.
bool quire_template_render(const quire_template* tmpl, quire_str context_json, quire_buffer* out,
                           quire_buffer* error);
void quire_template_free(quire_template* tmpl);

/// The tokens of one model, for which grammars are compiled.
typedef struct quire_grammars quire_grammars;
/// How far one answer has followed its grammar. Only one thread at a time may use one.
typedef struct quire_grammar quire_grammar;

enum { QUIRE_JSON_SCHEMA = 0, QUIRE_REGEX = 1, QUIRE_LARK = 2 };

/// tokens: the bytes that each stands for, none for special ones; any bytes. ends: tokens that end
/// an answer, at least one.
bool quire_grammars_new(quire_texts tokens, const int32_t* ends, size_t n_ends,
                        quire_grammars** out, quire_buffer* error);
void quire_grammars_free(quire_grammars* grammars);

/// Compiling may take some milliseconds. The error is about the source.
bool quire_grammar_new(const quire_grammars* grammars, uint8_t kind, quire_str source,
                       quire_grammar** out, quire_buffer* error);
bool quire_grammar_fork(const quire_grammar* grammar, quire_grammar** out, quire_buffer* error);
/// Bit t (32 to a word, lowest first) says whether token t may come next; those that end an answer
/// may where the grammar is complete. Words beyond the vocabulary are 0.
bool quire_grammar_allowed(quire_grammar* grammar, uint32_t* bits, size_t n_words,
                           quire_buffer* error);
bool quire_grammar_accept(quire_grammar* grammar, int32_t token, quire_buffer* error);
/// Nothing may follow but the end.
bool quire_grammar_is_complete(const quire_grammar* grammar);
void quire_grammar_free(quire_grammar* grammar);

/// Called when the system has no memory for this library, which cannot report that: unless the
/// handler ends the program, it is aborted. The handler must not allocate.
void quire_on_out_of_memory(void (*handler)(void));

void quire_buffer_free(quire_buffer* buffer);
void quire_ids_free(quire_ids* ids);

#ifdef __cplusplus
}
#endif
