// What a tokenizer.json may say, and what is said of one that is refused.
#include "tokenizer_files.hpp"

#include <fmt/format.h>

using namespace llm;
using gpuactors::Errc;
using gpuactors::test::fails;
using gpuactors::test::must;
using Json = nlohmann::json;
using Tokens = std::vector<std::int32_t>;

namespace {

/// What is said of a good file in which an entry is another.
gpuactors::Error refused(const char* entry, const char* value) {
  auto file = test::file_of({"a", "b", "ab", "<unk>"}, {{"a", "b"}});
  file[Json::json_pointer{entry}] = Json::parse(value);
  const auto tokenizer = read_tokenizer(file.dump());
  CAPTURE(entry, value);
  REQUIRE_FALSE(tokenizer);
  return tokenizer.error();
}

/// The tokens of a text with a pre-tokenizer that splits it; each word is one token for each of its characters.
std::vector<std::string> words_of(const char* splitter, const std::string& text) {
  std::vector<std::string> tokens{"a", "b", "-", " ", "1", "▁"};
  auto file = test::file_of(tokens);
  // What is no token vanishes, but a word that is one is found whole.
  for (const char* word : {"a-", "-a", "--", "a--", "b-", "-b", "ab", "11", "▁a", "▁b", "▁▁"})
    file["model"]["vocab"][word] = file["model"]["vocab"].size();
  file["model"]["ignore_merges"] = true;
  file["pre_tokenizer"] = Json::parse(splitter);
  const auto tokenizer = test::make_tokenizer(file);
  std::vector<std::string> words;
  for (const auto token : must(tokenizer.encode(text, false)))
    words.emplace_back(tokenizer.text_of(token).value());
  return words;
}

using Words = std::vector<std::string>;

} // namespace

TEST_CASE("a tokenizer knows its tokens") {
  auto file = test::file_of({"a", "b", "ab"}, {{"a", "b"}});
  file["added_tokens"] = Json::array({test::added_token(3, "<s>"), test::added_token(1, "b", false)});
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(tokenizer.find("<s>") == 3);
  CHECK(tokenizer.find("ab") == 2);
  CHECK_FALSE(tokenizer.find("<t>"));
  CHECK(tokenizer.text_of(3) == "<s>");
  CHECK(tokenizer.text_of(2) == "ab");
  CHECK_FALSE(tokenizer.text_of(4));
  CHECK_FALSE(tokenizer.text_of(-1));
  CHECK(tokenizer.is_special(3));
  CHECK_FALSE(tokenizer.is_special(1));
  CHECK(tokenizer.size() == 4);
  CHECK(tokenizer.end() == 4);
  CHECK(must(tokenizer.encode("ab<s>ab", false)) == Tokens{0, 1, 3, 0, 1});
}

TEST_CASE("the end of a vocabulary with gaps is above its last token") {
  auto file = test::file_of({"a", "b"});
  file["model"]["vocab"]["c"] = 7;
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(tokenizer.size() == 3);
  CHECK(tokenizer.end() == 8);
}

TEST_CASE("merges are texts or pairs, and the first in the list come first") {
  auto file = test::file_of({"a", "b", "c", "bc", "ab", "abc"}, {{"b", "c"}, {"a", "b"}, {"ab", "c"}});
  CHECK(must(test::make_tokenizer(file).encode("abc", false)) == Tokens{0, 3});
  file["model"]["merges"] = {"#version: 0.2", "a b", "b c", "ab c"};
  CHECK(must(test::make_tokenizer(file).encode("abc", false)) == Tokens{5});
  file["model"].erase("type");
  CHECK(must(test::make_tokenizer(file).encode("ab", false)) == Tokens{4});
}

TEST_CASE("characters that are no tokens are unknown, bytes, or nothing") {
  auto file = test::file_of({"a", "<unk>", "<0xC3>", "<0xA9>", "<0xBC>"});
  CHECK(must(test::make_tokenizer(file).encode("aéüxa", false)) == Tokens{0, 0});
  file["model"]["unk_token"] = "<unk>";
  CHECK(must(test::make_tokenizer(file).encode("aéüxa", false)) == Tokens{0, 1, 1, 1, 0});
  file["model"]["fuse_unk"] = true;
  CHECK(must(test::make_tokenizer(file).encode("aéüxa", false)) == Tokens{0, 1, 0});
  file["model"]["byte_fallback"] = true;
  CHECK(must(test::make_tokenizer(file).encode("aéüxa", false)) == Tokens{0, 2, 3, 2, 4, 1, 0});
  // As the library has it: the unknown one is added late.
  CHECK(must(test::make_tokenizer(file).encode("xéa", false)) == Tokens{2, 3, 1, 0});
}

TEST_CASE("matches of a split are removed, isolated, or joined with what is beside them") {
  const auto split = [](const char* behavior, const char* pattern = R"({"String": "-"})",
                        const char* invert = "false") {
    const auto text =
        fmt::format(R"({{"type": "Split", "pattern": {}, "behavior": "{}", "invert": {}}})", pattern, behavior, invert);
    return words_of(text.c_str(), "a--b-");
  };
  CHECK(split("Removed") == Words{"a", "b"});
  CHECK(split("Isolated") == Words{"a", "-", "-", "b", "-"});
  CHECK(split("MergedWithPrevious") == Words{"a-", "-", "b-"});
  CHECK(split("MergedWithNext") == Words{"a", "-", "-b", "-"});
  CHECK(split("Contiguous") == Words{"a", "--", "b", "-"});
  CHECK(split("Isolated", R"({"Regex": "-+"})") == Words{"a", "--", "b", "-"});
  CHECK(split("Removed", R"({"Regex": "-+"})", "true") == Words{"--", "-"});
}

TEST_CASE("digits, blanks and spaces split texts in their ways") {
  CHECK(words_of(R"({"type": "Digits", "individual_digits": true})", "a11b") == Words{"a", "1", "1", "b"});
  CHECK(words_of(R"({"type": "Digits", "individual_digits": false})", "a11b") == Words{"a", "11", "b"});
  CHECK(words_of(R"({"type": "Whitespace"})", " ab \n a--b ") == Words{"ab", "a", "--", "b"});
  CHECK(words_of(R"({"type": "WhitespaceSplit"})", " ab \n a-- ") == Words{"ab", "a--"});
  constexpr const char* meta = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})";
  CHECK(words_of(meta, "a  b") == Words{"▁a", "▁", "▁b"});
  CHECK(words_of(meta, " a") == Words{"▁a"});
  CHECK(words_of(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": false})", "  ")
        == Words{"▁▁"});
}

TEST_CASE("models that would be computed otherwise are refused") {
  CHECK(fails(refused("/model/type", R"("WordPiece")"), Errc::unsupported, "the type WordPiece; it is BPE"));
  CHECK(fails(refused("/model/dropout", "0.1"), Errc::unsupported, "has dropout"));
  CHECK(fails(refused("/model/end_of_word_suffix", R"("</w>")"), Errc::unsupported, "has a end_of_word_suffix"));
  CHECK(fails(refused("/model/other", "1"), Errc::unsupported, "has an entry other, which is not known"));
  CHECK(fails(refused("/model/unk_token", R"("<none>")"), Errc::invalid_argument, "no token of its vocab"));
  CHECK(fails(refused("/model/vocab/c", "1"), Errc::invalid_argument, "have the same ID 1"));
  CHECK(fails(refused("/model/vocab/c", "-1"), Errc::invalid_argument, "whole number from 0"));
  CHECK(fails(refused("/model/vocab", "[]"), Errc::invalid_argument, "has no vocab"));
  CHECK(fails(refused("/model/merges", R"([["a", "c"]])"), Errc::invalid_argument, "merges a and c, which are no"));
  CHECK(fails(refused("/model/merges", R"(["a b c"])"), Errc::invalid_argument, "it is two tokens with a space"));
  CHECK(fails(refused("/model/merges", R"([["a", "b"], "a b"])"), Errc::invalid_argument, "all are pairs of texts"));
  CHECK(fails(refused("/model/merges", "null"), Errc::invalid_argument, "no list of merges"));
  CHECK(fails(refused("/model", "null"), Errc::invalid_argument, "has no model"));
  CHECK(fails(refused("/model/type", "1"), Errc::invalid_argument, "tokenizer.json"));
}

TEST_CASE("parts of other types, and entries that are not known, are refused with their names") {
  CHECK(fails(refused("/normalizer", R"({"type": "Nmt"})"), Errc::unsupported, "a normalizer Nmt"));
  CHECK(fails(refused("/normalizer", R"({"type": "NFC", "a": 1})"), Errc::unsupported, "an entry a"));
  CHECK(fails(refused("/normalizer", "{}"), Errc::invalid_argument, "no object with a type"));
  CHECK(fails(refused("/normalizer", R"({"type": "Prepend"})"), Errc::invalid_argument, "has no prepend"));
  CHECK(fails(refused("/normalizer", R"({"type": "Prepend", "prepend": ""})"), Errc::unsupported, "prepends nothing"));
  CHECK(fails(refused("/pre_tokenizer", R"({"type": "Punctuation", "behavior": "Isolated"})"), Errc::unsupported,
              "a pre_tokenizer Punctuation"));
  CHECK(fails(refused("/pre_tokenizer", R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated",
                                            "invert": false})"),
              Errc::invalid_argument, "a text of 0 bytes"));
  CHECK(fails(refused("/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Other",
                                            "invert": false})"),
              Errc::unsupported, "behavior of the pre_tokenizer Split in tokenizer.json is Other"));
  CHECK(fails(refused("/post_processor", R"({"type": "BertProcessing"})"), Errc::unsupported, "a post_processor Bert"));
  CHECK(fails(refused("/post_processor", R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
                                             "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}]})"),
              Errc::invalid_argument, "it is a SpecialToken that special_tokens has"));
  CHECK(fails(refused("/post_processor", R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {
      "<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}, "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}]})"),
              Errc::invalid_argument, "puts the token 9 around texts"));
  CHECK(fails(refused("/truncation", "{}"), Errc::unsupported, "asks for truncation"));
  CHECK(fails(refused("/padding", "{}"), Errc::unsupported, "asks for padding"));
  CHECK(fails(refused("/version", R"("2.0")"), Errc::unsupported, "the version \"2.0\""));
  CHECK(fails(refused("/other", "1"), Errc::unsupported, "has an entry other"));
  CHECK(fails(read_tokenizer("[]").error(), Errc::invalid_argument, "tokenizer.json is no JSON object"));
}

TEST_CASE("decoders that need the whole text, or the end of one, are refused") {
  const auto chain = [](const std::string& list) {
    return refused("/decoder", fmt::format(R"({{"type": "Sequence", "decoders": [{}]}})", list).c_str());
  };
  CHECK(fails(chain(R"({"type": "CTC"})"), Errc::unsupported, "a decoder CTC"));
  CHECK(fails(chain(R"({"type": "Strip", "content": " ", "start": 0, "stop": 1})"), Errc::unsupported, "a stop of 1"));
  CHECK(fails(chain(R"({"type": "Fuse"}, {"type": "ByteFallback"})"), Errc::unsupported, "need the whole text"));
  CHECK(fails(chain(R"({"type": "Fuse"}, {"type": "Replace", "pattern": {"String": "ab"}, "content": ""})"),
              Errc::unsupported, "need the whole text"));
  CHECK(fails(chain(R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})"), Errc::unsupported,
              "a regular expression"));
}

TEST_CASE("added tokens have the number that Hugging Face's library gives them") {
  const auto added = [](Json token) {
    return refused("/added_tokens", Json::array({test::added_token(4, "<s>"), std::move(token)}).dump().c_str());
  };
  CHECK(fails(added(test::added_token(7, "<t>")), Errc::invalid_argument,
              "has the ID 7; the next one that is free is 5"));
  CHECK(fails(added(test::added_token(2, "a")), Errc::invalid_argument, "has the ID 2; the model has it with 0"));
  CHECK(fails(added(test::added_token(4, "<s>")), Errc::invalid_argument, "is free is 5"));
  CHECK(fails(added(test::added_token(5, "<s>")), Errc::invalid_argument, "is there twice"));
  CHECK(fails(added(test::added_token(5, "")), Errc::invalid_argument, "has 0 bytes"));
  CHECK(fails(added({{"id", 5}, {"content", "<t>"}}), Errc::invalid_argument, "has no single_word"));
}

TEST_CASE("added tokens that are found or decoded by chance are refused") {
  auto file = test::file_of({"a"});
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"] = Json::array({test::added_token(1, "<s>"), test::added_token(2, "<S>", false)});
  file["added_tokens"][1]["normalized"] = true;
  CHECK(fails(read_tokenizer(file.dump()).error(), Errc::unsupported,
              "make the special token <s> of the added token <S>"));
  file["added_tokens"][1]["content"] = " x";
  CHECK(read_tokenizer(file.dump()));
  file["added_tokens"][1]["rstrip"] = true;
  CHECK(fails(read_tokenizer(file.dump()).error(), Errc::unsupported, "begins with a blank and has rstrip"));
}

TEST_CASE("a metaspace for the beginning of a text is refused after what changes the text") {
  auto file = test::file_of({"a"});
  file["normalizer"] = {{"type", "NFC"}};
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  CHECK(fails(read_tokenizer(file.dump()).error(), Errc::unsupported, "the prepend_scheme first after what changes"));
  file.erase("normalizer");
  CHECK(read_tokenizer(file.dump()));
  file["pre_tokenizer"]["add_prefix_space"] = false;
  CHECK(fails(read_tokenizer(file.dump()).error(), Errc::invalid_argument, "add_prefix_space false"));
}
