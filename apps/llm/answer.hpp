// What a request gets for the tokens that are chosen for it. Pure.
#pragma once

#include <gpuactors/v1/serving.pb.h>

#include <apps/llm/batch.hpp>
#include <apps/llm/stop_texts.hpp>
#include <apps/llm/tokenizer/tokenizer.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llm {

/// Names of inputs and outputs. Those of texts are what OpenAI's paths of gpuactors-serve look for.
inline constexpr std::string_view tokens_name = "tokens";
inline constexpr std::string_view text_name = "text";
inline constexpr std::string_view reason_name = "finish_reason";
inline constexpr std::string_view prompt_count_name = "prompt_tokens";
inline constexpr std::string_view completion_count_name = "completion_tokens";

/// Adds inputs and outputs, of tokens or of texts, to what a replica says of itself.
void describe_io(gpuactors::v1::ReplicaDescription& description, bool as_texts);

/// Makes items of a request's tokens: tokens, or the text that is certain by then. The last item has "finish_reason":
/// "stop" behind a token or a text that ends the answer, "length" where it is as long as it may be; of texts, the
/// counts of tokens, too.
class Answer {
public:
  /// @param ends  the tokens that end the answer, and are not in it.
  explicit Answer(std::span<const std::int32_t> ends);

  /// Of texts, which also end at any of `stops`. @param given  tokens that were given.
  Answer(std::span<const std::int32_t> ends, TextOfTokens joiner, std::vector<std::string> stops, std::int64_t given);

  struct Step {
    /// Nothing while text is held back.
    std::optional<gpuactors::v1::GenerateReply> item;
    /// Whether it was the last one.
    bool ended = false;
    /// Whether the token is in the answer.
    bool written = false;
  };

  /// Takes a token that was chosen.
  Step take(const Chosen& chosen);

private:
  struct Texts {
    TextOfTokens joiner;
    StopTexts stops;
    std::int64_t given = 0;
    std::int64_t written = 0;
  };

  Step take_text(const Chosen& chosen, bool at_end);

  std::span<const std::int32_t> ends_;
  std::optional<Texts> texts_;
};

} // namespace llm
