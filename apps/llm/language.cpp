#include <apps/llm/json.hpp>
#include <apps/llm/language.hpp>
#include <apps/nn/files.hpp>

#include <fmt/format.h>

#include <algorithm>
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

/// Classes of transformers 4 that ignore what tokenizer.json puts around texts and put their own tokens there; and
/// whether they begin texts with one unless they are told.
constexpr std::pair<std::string_view, bool> own_ends[] = {{"LlamaTokenizer", true},
                                                          {"CodeLlamaTokenizer", true},
                                                          {"GemmaTokenizer", true},
                                                          {"CohereTokenizer", true},
                                                          {"GPTNeoXTokenizer", false}};

/// The token of this name, as a list, if `is_there`. `otherwise`: how it is written if nothing says so.
Result<std::vector<std::int32_t>> token_of(bool is_there, const char* name, const char* otherwise, const Json& specials,
                                           const Tokenizer& tokenizer) {
  if (!is_there)
    return std::vector<std::int32_t>{};
  const auto written = specials.value(name, std::string{otherwise});
  const auto token = tokenizer.find(written);
  if (!token)
    return fail(Errc::unsupported, fmt::format("{} puts {} around texts, and tokenizer.json has no token \"{}\"",
                                               config_file, name, written));
  return std::vector{*token};
}

Result<bool> read_flag(const nlohmann::json& config, const char* name, bool otherwise) {
  const auto found = config.find(name);
  if (found == config.end())
    return otherwise;
  if (!found->is_boolean())
    return fail(Errc::unsupported, fmt::format("{} of {} is neither true nor false", name, config_file));
  return found->get<bool>();
}

/// What a configuration says of the tokens around texts; nothing if that is for tokenizer.json to say.
Result<std::optional<Ends>> read_ends(const nlohmann::json& config, const Json& specials, const Tokenizer& tokenizer) {
  const auto name = config.value("tokenizer_class", nlohmann::json{});
  std::string_view named = name.is_string() ? std::string_view{name.get_ref<const std::string&>()} : "";
  if (named.ends_with("Fast"))
    named.remove_suffix(4);
  const auto* own =
      std::find_if(std::begin(own_ends), std::end(own_ends), [named](const auto& one) { return one.first == named; });
  if (own == std::end(own_ends))
    return std::optional<Ends>{};
  GPUACTORS_LET(has_begin, read_flag(config, "add_bos_token", own->second));
  GPUACTORS_LET(has_end, read_flag(config, "add_eos_token", false));
  GPUACTORS_LET(begin, token_of(has_begin, "bos_token", "<s>", specials, tokenizer));
  GPUACTORS_LET(end, token_of(has_end, "eos_token", "</s>", specials, tokenizer));
  // Only transformers 4 write these: whoever wrote them had what they say.
  if (config.contains("add_bos_token") || config.contains("add_eos_token"))
    return std::optional{Ends{std::move(begin), std::move(end)}};
  // Without them, transformers 5 go by tokenizer.json.
  GPUACTORS_LET(of_file, tokenizer.encode("", true));
  if (of_file != begin)
    return fail(Errc::unsupported,
                fmt::format("whether texts of this model begin with a token is unknown: tokenizer.json puts {} around "
                            "them and a {} puts {}; add_bos_token in {} would say it",
                            of_file.size(), named, begin.size(), config_file));
  return std::optional<Ends>{};
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
  auto ends = read_ends(config, specials, tokenizer);
  Language language{std::move(tokenizer), std::move(specials), std::move(ends)};
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
  if (!ends_)
    return fail(ends_.error());
  const auto& ends = *ends_;
  if (!ends)
    return tokenizer_.encode(text, true);
  GPUACTORS_LET(tokens, tokenizer_.encode(text, false));
  tokens.insert(tokens.begin(), ends->begin.begin(), ends->begin.end());
  tokens.insert(tokens.end(), ends->end.begin(), ends->end.end());
  return tokens;
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
