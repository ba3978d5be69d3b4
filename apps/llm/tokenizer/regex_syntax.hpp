// Regular expressions of tokenizer.json, which Oniguruma reads as Ruby's, in the syntax of ICU. Pure.
#pragma once

#include <gpuactors/base/result.hpp>

#include <string>
#include <string_view>

namespace llm::tokenizer {

/// Returns the same expression for ICU. Both libraries find the same with it: what they take differently is refused.
///
/// Known are characters, `.`, classes, `\s \S \d \D \r \n \t \f \e`, `\p{..}` and `\P{..}` of general categories and of
/// scripts, `\uHHHH`, `\x{..}`, groups (also `(?:`, `(?>`, and `(?i:` around letters of ASCII), lookahead and
/// lookbehind, alternatives, and quantifiers: `* + ?`, lazy or possessive too, and `{n} {n,} {n,m}`.
/// @returns `unsupported`, with the position, for anything else: among it `^ $ \b \w`, back references, options such as
///          `(?i)` without a colon, `{n}+` (possessive in one library, repeated in the other) and
///          repetitions of what can match nothing; `invalid_argument` for
///          one of more than 4096 bytes.
gpuactors::Result<std::string> to_icu(std::string_view expression);

} // namespace llm::tokenizer
