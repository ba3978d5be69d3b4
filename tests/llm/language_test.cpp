// Texts and conversations of a model's folder, as tokens.
#include "tokenizer_files.hpp"

#include <gpuactors/base/fingerprint.hpp>

#include <apps/llm/json.hpp>
#include <apps/llm/language.hpp>
#include <support/results.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

using gpuactors::Errc;
using gpuactors::test::code_of;
using gpuactors::test::must;
using gpuactors::test::says;
using gpuactors::test::TemporaryFolder;
using llm::Language;

namespace {

constexpr std::int64_t vocabulary = 1 << 20;

void write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream{path, std::ios::binary} << text;
}

/// A folder with the tokenizer of a Llama 3, and with this template.
Language language_of(const TemporaryFolder& folder, std::string_view chat_template) {
  std::filesystem::copy_file(std::filesystem::path{LLM_TEST_DATA} / "tokenizers/llama_3.json",
                             folder / "tokenizer.json", std::filesystem::copy_options::overwrite_existing);
  write(folder / "chat_template.jinja", chat_template);
  gpuactors::Fingerprint fingerprint;
  return must(Language::load(folder / ".", vocabulary, fingerprint));
}

std::string text_of(const Language& language, std::string_view document) {
  return language.tokenizer().decode(must(language.tokens_of_chat(document, {})));
}

} // namespace

TEST_CASE("a conversation is the text of its template, which sees what transformers show", "[llm]") {
  const TemporaryFolder folder;
  const auto language = language_of(folder, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                                            "{{ tools is none }} {{ documents is none }} {{ add_generation_prompt }}"
                                            "{% if tools %} {{ tools | tojson }}{% endif %}{{ more }}");
  CHECK(text_of(language, R"({"messages":[{"role":"user","content":"hi"}]})") == "user: hi\nTrue True True");
  CHECK(
      text_of(language, R"({"messages":[{"role":"a","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}],
                              "tools":[]})")
      == "a: b\nc\nTrue True True");
  CHECK(text_of(language, R"({"messages":[{"role":"a","content":"b"}],"tools":[{"z":1,"a":2}],
                              "chat_template_kwargs":{"more":"!"}})")
        == "a: b\nFalse True True [{\"z\": 1, \"a\": 2}]!");
}

TEST_CASE("what is no conversation is refused, and so is what would take long to read", "[llm]") {
  const TemporaryFolder folder;
  const auto language = language_of(folder, "{{ messages[0].content }}");
  const auto refused = [&](const std::string& document, const std::string& words) {
    INFO(words);
    CHECK(says(language.tokens_of_chat(document, {}), words));
  };
  refused("no JSON", "the conversation is no JSON object");
  refused("{}", "has no \"messages\"");
  refused(R"({"messages":[]})", "has no \"messages\"");
  refused(R"({"messages":["hi"]})", "a message is no object");
  refused(R"({"messages":[{"content":[{"type":"image_url"}]}]})", "a part that is no text");
  std::string keys;
  for (int i = 0; i < 513; ++i)
    keys += fmt::format("{}\"{}\":1", i > 0 ? "," : "", i);
  refused(fmt::format(R"({{"messages":[{{{}}}]}})", keys), "an object of more than 512 keys");
  refused("}" + std::string(100, ']'), "the conversation is no JSON object");
  // Files may have more: nobody sends them.
  must(llm::parse_object("{" + keys + "}", "a file"));
}

TEST_CASE(
    "the tokens around texts are those that the configuration's class and flags put there, as transformers 4 do") {
  auto file = llm::test::read_json("llama_3.json");
  const auto with_begin = file["post_processor"];
  const auto only_bytes = nlohmann::json::parse(R"({"type": "ByteLevel", "trim_offsets": false})");
  const TemporaryFolder folder;
  const auto tokens = [&](const nlohmann::json& post_processor, const std::string& config) {
    file["post_processor"] = post_processor;
    write(folder / "tokenizer.json", file.dump());
    write(folder / "tokenizer_config.json",
          R"({"bos_token": {"content": "<|begin_of_text|>"}, "eos_token": "<|eot_id|>")" + config + "}");
    gpuactors::Fingerprint fingerprint;
    return must(Language::load(folder / ".", vocabulary, fingerprint)).tokens_of("a");
  };
  const auto llama = [](const std::string& more) { return R"(, "tokenizer_class": "LlamaTokenizerFast")" + more; };
  const auto plain = must(tokens(only_bytes, ""));
  const auto begun = must(tokens(with_begin, ""));
  REQUIRE(begun.size() == plain.size() + 1);
  const auto end = *llm::test::make_tokenizer(file).find("<|eot_id|>");
  auto both = begun;
  both.push_back(end);
  // DeepSeek-R1-Distill-Qwen and others have such files.
  CHECK(must(tokens(only_bytes, llama(R"(, "add_bos_token": true, "add_eos_token": false)"))) == begun);
  CHECK(must(tokens(nullptr, llama(R"(, "add_bos_token": true)"))) == begun);
  CHECK(must(tokens(nullptr, llama(R"(, "add_eos_token": true)"))) == both);
  CHECK(must(tokens(with_begin, llama(R"(, "add_bos_token": false)"))) == plain);
  CHECK(must(tokens(with_begin, llama(R"(, "add_bos_token": true)"))) == begun);
  // Other classes go by tokenizer.json.
  CHECK(must(tokens(only_bytes, R"(, "tokenizer_class": "PreTrainedTokenizerFast", "add_bos_token": true)")) == plain);
  CHECK(must(tokens(with_begin, R"(, "tokenizer_class": 1, "add_bos_token": false)")) == begun);
  // Versions of transformers that go by the flags and by the file agree, or do not.
  CHECK(must(tokens(with_begin, llama(""))) == begun);
  CHECK(must(tokens(nullptr, R"(, "tokenizer_class": "GPTNeoXTokenizer")")) == plain);
  CHECK(says(tokens(only_bytes, llama("")), "whether texts of this model begin with a token is unknown"));
  CHECK(says(tokens(nullptr, llama(R"(, "add_bos_token": null)")), "is neither true nor false"));
  CHECK(says(tokens(nullptr, llama(R"(, "add_bos_token": true, "bos_token": "none")")), "has no token \"none\""));
}

TEST_CASE("a template that is unknown here leaves texts, and a folder without one too", "[llm]") {
  const TemporaryFolder folder;
  const auto language = language_of(folder, "{% import 'x' as x %}");
  CHECK(says(language.tokens_of_chat(R"({"messages":[{"role":"a"}]})", {}), "cannot be rendered here"));
  CHECK_FALSE(must(language.tokens_of("hi")).empty());
  std::filesystem::remove(folder / "chat_template.jinja");
  gpuactors::Fingerprint fingerprint;
  const auto mute = must(Language::load(folder / ".", vocabulary, fingerprint));
  CHECK(says(mute.tokens_of_chat(R"({"messages":[{"role":"a"}]})", {}), "has no chat template"));
  CHECK(says(Language::load(folder / ".", 10, fingerprint), "tokenizer.json has tokens up to"));
  CHECK(code_of(Language::load(folder / "nowhere", vocabulary, fingerprint)) == Errc::not_found);
  // A file that need not be there, and is there as something else.
  std::filesystem::create_directory(folder / "chat_template.jinja");
  CHECK(says(Language::load(folder / ".", vocabulary, fingerprint), "chat_template.jinja is no file"));
}
