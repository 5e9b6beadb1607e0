#include "text/pre_tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

// Each entry says what the tokenizer.json of the models of that name says (docs/tokenizers.md), in
// JSON, so that it can be compared with the original character by character.
#define QUIRE_SPLIT(regex) \
  R"({"type":"Split","pattern":{"Regex":")" regex R"("},"behavior":"Isolated","invert":false},)"
#define QUIRE_DIGITS R"({"type":"Digits","individual_digits":true},)"
#define QUIRE_BYTE_LEVEL(use_regex) \
  R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":)" use_regex "}"
#define QUIRE_SEQUENCE(items) R"({"type":"Sequence","pretokenizers":[)" items "]}"

namespace quire {
namespace {

// Pieces that end in white space leave its last character to the word that follows.
#define QUIRE_WHITE_SPACE R"(|\\s+(?!\\S)|\\s+)"

constexpr std::string_view kGpt2 = QUIRE_BYTE_LEVEL("true");

constexpr std::string_view kSmolLm = QUIRE_SEQUENCE(QUIRE_DIGITS QUIRE_BYTE_LEVEL("true"));

// Names no model of its own: what llama.cpp applies where a file says "default".
constexpr std::string_view kDefault = QUIRE_SEQUENCE(
    QUIRE_SPLIT(R"([\\p{P}\\$\\+<=>\\^~\\|]+)") QUIRE_SPLIT(
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S))")
        QUIRE_SPLIT(R"(\\p{N}+)") QUIRE_SPLIT(R"([0-9][0-9][0-9])") QUIRE_BYTE_LEVEL("false"));

constexpr std::string_view kLlama3 = QUIRE_SEQUENCE(QUIRE_SPLIT(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|)"
    R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+)" QUIRE_WHITE_SPACE) QUIRE_BYTE_LEVEL("false"));

constexpr std::string_view kQwen2 = QUIRE_SEQUENCE(QUIRE_SPLIT(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)"
    R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+)" QUIRE_WHITE_SPACE) QUIRE_BYTE_LEVEL("false"));

// Upper and lower case letters are told apart: a piece is at most one camel-case word.
constexpr std::string_view kTekken =
    QUIRE_SEQUENCE(QUIRE_SPLIT(R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*)"
                               R"([\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|)"
                               R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+)"
                               R"([\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|)"
                               R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+)" QUIRE_WHITE_SPACE)
                       QUIRE_BYTE_LEVEL("false"));

// The letters with case, as the model's file lists them.
#define QUIRE_DEEPSEEK_LETTERS                                                        \
  R"(A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293)"  \
  R"(\u0295-\u02AF\u0370-\u0373\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A)"   \
  R"(\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-)" \
  R"(\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-)" \
  R"(\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-)" \
  R"(\u1F57\u1F59\u1F5B\u1F5D\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-)"   \
  R"(\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-)" \
  R"(\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128\u212A-)"    \
  R"(\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-)"   \
  R"(\u2C7B\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-)"  \
  R"(\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF\uFB00-\uFB06\uFB13-\uFB17\uFF21-)" \
  R"(\uFF3A\uFF41-\uFF5A\uD801\uDC00-\uD801\uDC4F\uD801\uDCB0-\uD801\uDCD3)"          \
  R"(\uD801\uDCD8-\uD801\uDCFB\uD803\uDC80-\uD803\uDCB2\uD803\uDCC0-\uD803\uDCF2)"    \
  R"(\uD806\uDCA0-\uD806\uDCDF\uD83A\uDD00-\uD83A\uDD43)"

constexpr std::string_view kDeepSeekLlm = QUIRE_SEQUENCE(
    QUIRE_SPLIT(R"([\r\n])") QUIRE_SPLIT(R"(\\s?[)" QUIRE_DEEPSEEK_LETTERS R"(]+)")
        QUIRE_SPLIT(R"(\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+)")
            QUIRE_SPLIT(R"(\\s+$)") QUIRE_SPLIT(R"([\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+)")
                QUIRE_DIGITS QUIRE_BYTE_LEVEL("false"));

constexpr std::string_view kDeepSeekV3 = QUIRE_SEQUENCE(
    QUIRE_SPLIT(R"(\\p{N}{1,3})") QUIRE_SPLIT(R"([\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+)")
        QUIRE_SPLIT(R"([!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|)"
                    R"([^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|)"
                    R"(\\s*[\r\n]+)" QUIRE_WHITE_SPACE) QUIRE_BYTE_LEVEL("false"));

constexpr std::array<PreTokenizer, 8> kKnown = {{
    {"deepseek-llm", "", kDeepSeekLlm, false},
    {"deepseek-v3", "", kDeepSeekV3, false},
    {"default", "", kDefault, false},
    {"gpt-2", "", kGpt2, false},
    {"llama-bpe", "", kLlama3, true},
    {"qwen2", R"({"type":"NFC"})", kQwen2, false},
    {"smollm", "", kSmolLm, false},
    {"tekken", "", kTekken, true},
}};

}  // namespace

Result<const PreTokenizer*> find_pre_tokenizer(std::string_view name) {
  const auto found = std::ranges::find(kKnown, name, &PreTokenizer::name);
  if (found != kKnown.end()) return &*found;
  std::vector<std::string_view> names;
  for (const PreTokenizer& known : kKnown) names.push_back(known.name);
  if (name.empty()) {
    return fail(ErrorCode::kUnsupported,
                "no pre-tokenizer is named, and a guessed one would give wrong tokens; known are "
                "{}",
                fmt::join(names, ", "));
  }
  return fail(ErrorCode::kUnsupported, "the pre-tokenizer '{}' is not known; known are {}",
              name.substr(0, 64), fmt::join(names, ", "));
}

}  // namespace quire
