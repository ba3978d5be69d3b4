// OpenAI's completions and chats in terms of the generate extension: what a request asks a model that writes texts, and
// how its answers are written. The field names are those of OpenAI's API reference; what would change the answer and is
// not there is refused.
#pragma once

#include <apps/serve/protocol/json_text.hpp>
#include <apps/serve/service.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace serve {

enum class OpenAiKind : std::uint8_t {
  /// {"prompt": text, ...}
  completion,
  /// {"messages": [...], ...}
  chat,
};

/// What they ask: generative models with the one input "text" and an output "text", both BYTES [1]. A chat has as its
/// text a JSON object with "messages" and, if there are any, "tools" and "chat_template_kwargs", and the parameter
/// "chat". The last item of an answer may also have "finish_reason" (BYTES [1]), "prompt_tokens" and
/// "completion_tokens" (INT32 [1]).
inline constexpr std::string_view text_tensor = "text";
inline constexpr std::string_view chat_parameter = "chat";
inline constexpr std::string_view finish_reason_tensor = "finish_reason";
inline constexpr std::string_view prompt_tokens_tensor = "prompt_tokens";
inline constexpr std::string_view completion_tokens_tensor = "completion_tokens";

/// Whether a model is one of these.
[[nodiscard]] bool writes_texts(const ModelDescription& model);

/// Texts that end an answer.
inline constexpr std::size_t most_stops = 4;

/// The parameter for the stop text of that number, from 0 on: "stop", "stop_2" and so on.
[[nodiscard]] std::string stop_parameter(std::size_t number);

/// What a request says beside what goes to the model.
struct OpenAiWishes {
  bool stream = false;
  /// Of a stream: its last event has the counts of tokens.
  bool include_usage = false;
};

/// The model that a body asks.
/// @param body At least `body_padding` bytes behind it may be read.
/// @returns `invalid_argument` for a body that is no JSON object or names none.
[[nodiscard]] gpuactors::Result<std::string> find_openai_model(const Bytes& body);

/// Reads a body for a model, which it names, and sets `wishes`. Any thread.
/// @returns `invalid_argument` with a sentence for whatever is wrong with it, also for a model that does not write
/// texts.
[[nodiscard]] gpuactors::Result<InferRequest> read_openai(OpenAiKind kind, const Bytes& body,
                                                          const ModelDescription& model, OpenAiWishes& wishes);

/// Writes the answers to one request. One thread at a time.
class OpenAiWriter {
public:
  /// @param id  The answer's, unique enough. @param created  Seconds since 1970.
  OpenAiWriter(OpenAiKind kind, std::string id, std::int64_t created, OpenAiWishes wishes);

  /// All of it as one document. @param reply  All items together.
  /// @returns `internal` for outputs that are not as described above.
  [[nodiscard]] gpuactors::Result<std::string> whole(const InferReply& reply) const;

  /// The event of an item. @returns as `whole`.
  [[nodiscard]] gpuactors::Result<std::string> event(const InferReply& reply);

  /// The events behind the last item.
  [[nodiscard]] std::string end() const;

private:
  struct Counts {
    std::int64_t prompt = -1;
    std::int64_t completion = -1;
  };
  /// What one reply has.
  struct Item {
    std::string_view text;
    std::string_view finish_reason;
    Counts counts;
  };

  [[nodiscard]] static gpuactors::Result<Item> item_of(const InferReply& reply);
  void write_head(JsonText& json, std::string_view object, std::string_view model) const;
  void write_choice(JsonText& json, const Item& item, bool is_event) const;
  static void write_usage(JsonText& json, const Counts& counts);

  OpenAiKind kind_;
  std::string id_;
  std::int64_t created_;
  OpenAiWishes wishes_;
  std::string model_;
  bool begun_ = false;
  bool finished_ = false;
  Counts counts_;
};

/// {"error": {"message": sentence, ...}}, as OpenAI's clients read errors.
[[nodiscard]] std::string openai_error(int status, std::string_view sentence);

/// Models as OpenAI lists them.
[[nodiscard]] std::string openai_models(std::span<const std::string> names, std::int64_t created);

} // namespace serve
