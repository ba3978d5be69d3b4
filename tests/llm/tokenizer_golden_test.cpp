// What Hugging Face's library makes of texts in many languages and of tokens, with each kind of tokenizer.json.
#include "tokenizer_files.hpp"

#include <apps/llm/tokenizer/utf8.hpp>

#include <algorithm>
#include <thread>

using namespace llm;
using gpuactors::test::must;
using Tokens = std::vector<std::int32_t>;

namespace {

constexpr const char* names[]{"llama_2", "mistral", "llama_3", "qwen_2", "gpt_2", "compatible", "split"};

std::vector<std::string> texts() {
  return test::read_json("texts.json").get<std::vector<std::string>>();
}

} // namespace

TEST_CASE("texts become the tokens that Hugging Face's library makes of them") {
  const auto* name = GENERATE(from_range(std::begin(names), std::end(names)));
  CAPTURE(name);
  const auto tokenizer = test::make_tokenizer(test::read_json(name + std::string{".json"}));
  const auto expected = test::read_json(name + std::string{".expected.json"});
  const auto asked = texts();
  REQUIRE(asked.size() == expected["plain"].size());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    CAPTURE(asked[i]);
    CHECK(must(tokenizer.encode(asked[i], false)) == expected["plain"][i].get<Tokens>());
    if (i < expected["special"].size())
      CHECK(must(tokenizer.encode(asked[i], true)) == expected["special"][i].get<Tokens>());
  }
  CHECK(tokenizer.size() == expected["size"].get<std::int64_t>());
}

TEST_CASE("tokens become the text that Hugging Face's library makes of them, in pieces that are whole characters") {
  const auto* name = GENERATE(from_range(std::begin(names), std::end(names)));
  CAPTURE(name);
  const auto tokenizer = test::make_tokenizer(test::read_json(name + std::string{".json"}));
  const auto expected = test::read_json(name + std::string{".expected.json"});
  TextOfTokens pieces{tokenizer};
  for (const auto& one : expected["decoded"]) {
    CAPTURE(one.dump());
    const auto tokens = one[0].get<Tokens>();
    std::string text;
    for (const auto token : tokens) {
      const auto piece = pieces.take(token);
      CHECK_FALSE(tokenizer::find_no_utf8(piece));
      text += piece;
    }
    text += pieces.finish();
    CHECK(text == one[1].get<std::string>());
    CHECK(tokenizer.decode(tokens) == text);
  }
}

TEST_CASE("threads may use one tokenizer at the same time") {
  const auto tokenizer = test::make_tokenizer(test::read_json("qwen_2.json"));
  const auto asked = texts();
  std::vector<Tokens> alone;
  for (const auto& text : asked)
    alone.push_back(must(tokenizer.encode(text, true)));
  std::vector<int> different(4);
  std::vector<std::thread> threads;
  for (auto& count : different)
    threads.emplace_back([&asked, &alone, &count, tokenizer] {
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto tokens = tokenizer.encode(asked[i], true);
        count += tokens && *tokens == alone[i] ? 0 : 1;
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(std::count(different.begin(), different.end(), 0) == 4);
}
