// Texts and files that mean no good: what they cost is bounded. Regular expressions that two libraries take
// differently.
#include "tokenizer_files.hpp"

#include <apps/llm/tokenizer/regex_syntax.hpp>

#include <fmt/format.h>

using namespace llm;
using gpuactors::Errc;
using gpuactors::test::fails;
using gpuactors::test::must;
using gpuactors::test::says;
using Json = nlohmann::json;

namespace {

std::string repeat(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i)
    all += text;
  return all;
}

Json split_by(const char* expression) {
  auto file = test::file_of({"a", "b"});
  file["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}, {"invert", false}};
  return file;
}

} // namespace

TEST_CASE("text that is no UTF-8 is refused with the position of the byte") {
  const auto tokenizer = test::make_tokenizer(test::file_of({"a"}));
  const auto wrong = [&](std::string_view text) { return tokenizer.encode(text, true).error(); };
  CHECK(fails(wrong("a\x80"), Errc::invalid_argument, "the text is no UTF-8 at byte 1"));
  CHECK(says(wrong("aé\xC3"), "at byte 3"));
  CHECK(says(wrong("\xC0\xAF"), "at byte 0"));
  CHECK(says(wrong("a\xED\xA0\x80"), "at byte 1"));
  CHECK(says(wrong("a\xF4\x90\x80\x80"), "at byte 1"));
  CHECK(says(wrong("\xF0\x9F\x98"), "at byte 0"));
  CHECK(must(tokenizer.encode(std::string_view{"a\0a", 3}, true)).size() == 2);
}

TEST_CASE("a text has at most 4 MiB, and a file is nested at most 32 deep") {
  const auto tokenizer = test::make_tokenizer(test::file_of({"a"}));
  CHECK(fails(tokenizer.encode(std::string((4 << 20) + 1, 'a'), true).error(), Errc::invalid_argument,
              "has 4194305 bytes; it has at most 4194304"));
  CHECK(fails(read_tokenizer("{\"model\":" + repeat("[", 100'000)).error(), Errc::invalid_argument,
              "tokenizer.json is nested more than 32 deep"));
}

TEST_CASE("a word of a million letters is merged in time that hardly grows faster than it") {
  std::vector<std::string> tokens{"a"};
  while (tokens.back().size() < 64)
    tokens.push_back(tokens.back() + tokens.back());
  auto file = test::file_of(tokens);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    file["model"]["merges"].push_back({tokens[i], tokens[i]});
  const auto tokenizer = test::make_tokenizer(file);
  const std::size_t letters = std::size_t{1} << 20;
  CHECK(must(tokenizer.encode(std::string(letters, 'a'), false)) == std::vector<std::int32_t>(letters / 64, 6));
}

TEST_CASE("blanks, marks and letters without end are split by the expressions of real models") {
  for (const char* name : {"llama_2.json", "mistral.json", "llama_3.json", "qwen_2.json", "gpt_2.json"}) {
    CAPTURE(name);
    const auto tokenizer = test::make_tokenizer(test::read_json(name));
    for (const char* text : {" ", "a", "\n", " \n", "1", "'", "<s>", "<|im_start|>", "[INST]  ", "é", "😀", "a\u0301"}) {
      const auto tokens = tokenizer.encode(repeat(text, 100'000), true);
      CAPTURE(text);
      CHECK(tokens);
    }
  }
}

TEST_CASE("an expression that goes back without end in a text is stopped") {
  for (const char* expression : {"(a|a)*b", "(?:a+)+b", "a*a*a*a*b"}) {
    CAPTURE(expression);
    const auto tokenizer = test::make_tokenizer(split_by(expression));
    CHECK(must(tokenizer.encode("aab", false)).size() == 3);
    CHECK(fails(tokenizer.encode(std::string(5'000, 'a'), false).error(), Errc::invalid_argument,
                "goes back too often in this text"));
  }
}

TEST_CASE("what is put before each piece of a text is bounded for all pieces together") {
  auto file = test::file_of({"a", "<s>"});
  file["added_tokens"] = {test::added_token(1, "<s>")};
  const auto prepend = Json{{"type", "Prepend"}, {"prepend", std::string(1 << 20, 'a')}};
  const auto text = [](std::size_t times) { return repeat("<s>a", times); };
  file["normalizer"] = prepend;
  const auto longer = test::make_tokenizer(file);
  CHECK(must(longer.encode(text(2), false)).size() == 4 + (2U << 20));
  CHECK(fails(longer.encode(text(70), false).error(), Errc::invalid_argument, "makes more than 67108864 bytes"));
  // What is taken away again costs time.
  file["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {prepend, {{"type", "Replace"}, {"pattern", {{"String", std::string(256, 'a')}}}, {"content", ""}}}}};
  const auto shorter = test::make_tokenizer(file);
  CHECK(must(shorter.encode(text(2), false)) == std::vector<std::int32_t>{1, 0, 1, 0});
  CHECK(fails(shorter.encode(text(200), false).error(), Errc::invalid_argument, "takes too long for this text"));
}

TEST_CASE("an added token that begins everywhere in a text, and nowhere ends, is not looked for without end") {
  auto file = test::file_of({"a"});
  file["added_tokens"] = {test::added_token(1, std::string(1'023, 'a') + "b")};
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(must(tokenizer.encode(std::string(2'000, 'a'), false)).size() == 2'000);
  CHECK(fails(tokenizer.encode(std::string(100'000, 'a'), false).error(), Errc::invalid_argument,
              "begin too often in this text"));
}

TEST_CASE("marks on one character are normalized up to a thousand of them") {
  auto file = test::file_of({"a", "\u0323", "\u0301"});
  file["normalizer"] = {{"type", "NFD"}};
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(must(tokenizer.encode("a" + repeat("\u0301\u0323", 500), false)).at(1) == 1);
  CHECK(fails(tokenizer.encode("a" + repeat("\u0301\u0323", 513), false).error(), Errc::invalid_argument,
              "more than 1024 combining marks"));
}

TEST_CASE("expressions are written for ICU with the numbers of their characters") {
  using tokenizer::to_icu;
  CHECK(must(to_icu(R"((?i:'s|'T)| ?\p{L}+|[^\s\p{N}a-c]{1,3}|(x)\s++(?!\S)|.)"))
        == R"((?i:\x{27}\x{73}|\x{27}\x{54})|\x{20}?\p{L}+|[^\s\p{N}\x{61}-\x{63}]{1,3}|(?:\x{78})\s++(?!\S)|.)");
  CHECK(must(to_icu(R"(\u4e00\x{1F600}\x41\.\-[\]\-a-])"))
        == R"(\x{4E00}\x{1F600}\x{41}\x{2E}\x{2D}[\x{5D}\x{2D}\x{61}\x{2D}])");
}

TEST_CASE("expressions that two libraries take differently are refused with the position") {
  using tokenizer::to_icu;
  for (const char* expression : {"^a",
                                 "a$",
                                 R"(\ba)",
                                 R"(\w)",
                                 R"(\1)",
                                 R"(\G)",
                                 R"(\h)",
                                 R"(\x80)",
                                 R"(\u12)",
                                 R"(\x{110000})",
                                 R"(\x{D800})",
                                 R"(\pL)",
                                 R"(\p{^L})",
                                 R"(\p{Alphabetic})",
                                 R"(\p{Nothing})",
                                 "[a&&b]",
                                 "[a-b-c]",
                                 "[[:alpha:]]",
                                 "[]a]",
                                 "[]",
                                 "[b-a]",
                                 R"([\s-a])",
                                 "[a",
                                 "a{,2}",
                                 "a{2}+",
                                 "a{2}?",
                                 "a{2",
                                 "a{3,2}",
                                 "a{1001}",
                                 "a**",
                                 "*a",
                                 "(?=a)*",
                                 "a)",
                                 "(a",
                                 "(?i)a",
                                 "(?m:a)",
                                 "(?<n>a)",
                                 "(?#a)",
                                 "(?i:é)",
                                 R"((?i:\s))",
                                 "(?i:[^a])",
                                 "(?i:ss)",
                                 "(?i:Fi)",
                                 "(?i:[é])",
                                 "a]",
                                 "a}",
                                 "\\",
                                 "(a?)*",
                                 "(?:a|b*)+",
                                 "(|a)+",
                                 "(?:a*?b{0,2}){2}"}) {
    CAPTURE(expression);
    const auto translated = to_icu(expression);
    REQUIRE_FALSE(translated);
    CHECK(fails(translated.error(), Errc::unsupported, "which is not known here"));
  }
  CHECK(to_icu("(?:a*b|a)+(a?)?(?:a?b){2,}"));
  CHECK(fails(to_icu("ab^").error(), Errc::unsupported, "has a ^ at byte 2"));
  CHECK(fails(to_icu(repeat("a", 4097)).error(), Errc::invalid_argument, "it has at most 4096"));
  CHECK(to_icu(repeat("(", 17)).error().code() == Errc::unsupported);
}
