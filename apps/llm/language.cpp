#include <apps/llm/json.hpp>
#include <apps/llm/language.hpp>
#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace llm {

using gpuactors::Errc;
using gpuactors::fail;
using gpuactors::Result;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* config_file = "tokenizer_config.json";

/// Special tokens that templates are told of, as transformers do.
constexpr std::array special_names{"bos_token", "eos_token", "unk_token", "pad_token"};

/// How a special token is written: a text, or an object that has it.
void add_special(Json& specials, const char* name, const nlohmann::json& config) {
  const auto found = config.find(name);
  if (found == config.end())
    return;
  if (found->is_string())
    specials[name] = found->get<std::string>();
  else if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    specials[name] = (*found)["content"].get<std::string>();
}

/// The template of a configuration: a text, or a list of named ones, of which "default" is meant. Nothing if there is
/// none.
std::optional<std::string> template_of(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end())
    return std::nullopt;
  if (found->is_string())
    return found->get<std::string>();
  if (found->is_array())
    for (const auto& one : *found)
      if (one.is_object() && one.value("name", nlohmann::json{}) == "default"
          && one.value("template", nlohmann::json{}).is_string())
        return one["template"].get<std::string>();
  return std::nullopt;
}

/// Lists of texts become one text, as templates that know nothing else expect it.
Result<void> join_contents(Json& message) {
  if (!message.is_object())
    return fail(Errc::invalid_argument, "a message is no object");
  const auto content = message.find("content");
  if (content == message.end() || !content->is_array())
    return {};
  std::string text;
  for (const auto& part : *content) {
    const auto type = part.is_object() ? part.value("type", Json{}) : Json{};
    if (type != "text" || !part.contains("text") || !part["text"].is_string())
      return fail(Errc::unsupported, "a message has a part that is no text; the model reads texts only");
    text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  }
  *content = text;
  return {};
}

} // namespace

Result<Language> Language::load(const std::filesystem::path& folder, std::int64_t vocabulary,
                                gpuactors::Fingerprint& fingerprint) {
  GPUACTORS_LET(text, nn::read_text(folder / "tokenizer.json"));
  fingerprint.add(text);
  GPUACTORS_LET(tokenizer, read_tokenizer(text));
  if (tokenizer.end() > vocabulary)
    return fail(Errc::invalid_argument, fmt::format("tokenizer.json has tokens up to {}, and the model has {} of them",
                                                    tokenizer.end() - 1, vocabulary));
  auto config = nlohmann::json::object();
  GPUACTORS_LET(config_text, nn::read_text_if_there(folder / config_file));
  if (config_text) {
    fingerprint.add(*config_text);
    GPUACTORS_LET(parsed, parse_object(*config_text, config_file));
    config = std::move(parsed);
  }
  auto specials = Json::object();
  for (const auto* name : special_names)
    add_special(specials, name, config);
  Language language{std::move(tokenizer), std::move(specials)};
  auto chat = template_of(config);
  // Where there are both, transformers take the file.
  GPUACTORS_LET(chat_text, nn::read_text_if_there(folder / "chat_template.jinja"));
  if (chat_text) {
    fingerprint.add(*chat_text);
    chat = std::move(*chat_text);
  }
  if (!chat)
    return language;
  auto parsed = ChatTemplate::parse(*std::move(chat));
  if (parsed)
    language.chat_ = std::move(*parsed);
  else
    language.without_chat_ = {Errc::unsupported, fmt::format("the model's chat template cannot be rendered here: {}",
                                                             parsed.error().message())};
  return language;
}

Result<std::vector<std::int32_t>> Language::tokens_of(std::string_view text) const {
  return tokenizer_.encode(text, true);
}

Result<std::vector<std::int32_t>> Language::tokens_of_chat(std::string_view document,
                                                           std::chrono::local_seconds now) const {
  if (!chat_)
    return fail(without_chat_.code(), without_chat_.message());
  GPUACTORS_LET(chat, parse_ordered_object(document, "the conversation"));
  if (!chat.contains("messages") || !chat["messages"].is_array() || chat["messages"].empty())
    return fail(Errc::invalid_argument, "the conversation has no \"messages\"");
  auto variables = specials_;
  for (auto& message : chat["messages"])
    GPUACTORS_TRY(join_contents(message));
  variables["add_generation_prompt"] = true;
  // As transformers do: none, and not undefined.
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  if (const auto more = chat.find("chat_template_kwargs"); more != chat.end() && more->is_object())
    variables.update(*more);
  variables["messages"] = std::move(chat["messages"]);
  if (chat.contains("tools") && !chat["tools"].empty())
    variables["tools"] = std::move(chat["tools"]);
  RenderOptions options;
  options.now = now;
  GPUACTORS_LET(text, chat_->render(variables, options));
  // The template writes the tokens that begin texts itself.
  return tokenizer_.encode(text, false);
}

} // namespace llm
