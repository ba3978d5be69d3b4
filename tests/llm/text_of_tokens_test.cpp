// Text that comes token by token: what is held back, and what is left out.
#include "tokenizer_files.hpp"

#include <fmt/format.h>

using namespace llm;
using gpuactors::test::must;
using Json = nlohmann::json;

namespace {

/// How a tokenizer writes bytes: each as one token of its own.
Json file_of_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back(fmt::format("<0x{:02X}>", byte));
  tokens.insert(tokens.end(), {"a", "▁b"});
  auto file = test::file_of(tokens);
  file["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
  return file;
}

/// The pieces that tokens give, and the rest.
std::vector<std::string> pieces_of(const Tokenizer& tokenizer, std::initializer_list<std::int32_t> tokens) {
  TextOfTokens text{tokenizer};
  std::vector<std::string> pieces;
  for (const auto token : tokens)
    pieces.push_back(text.take(token));
  pieces.push_back(text.finish());
  return pieces;
}

using Pieces = std::vector<std::string>;

} // namespace

TEST_CASE("a character of which bytes are missing is held back, and is U+FFFD if they do not come") {
  auto file = test::file_of({"a", "ð", "Ł", "ĺ", "Ģ", "Ã"});
  file["decoder"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(pieces_of(tokenizer, {1, 2, 3, 4, 0}) == Pieces{"", "", "", "😀", "a", ""});
  CHECK(pieces_of(tokenizer, {1, 2, 3}) == Pieces{"", "", "", "\uFFFD"});
  CHECK(pieces_of(tokenizer, {1, 2, 0, 5}) == Pieces{"", "", "\uFFFDa", "", "\uFFFD"});
  CHECK(pieces_of(tokenizer, {3, 5, 5}) == Pieces{"\uFFFD", "", "\uFFFD", "\uFFFD"});
}

TEST_CASE("bytes as tokens are text when another token comes, and all of them U+FFFD when one is wrong") {
  const auto tokenizer = test::make_tokenizer(file_of_bytes());
  CHECK(pieces_of(tokenizer, {0xC3, 0xA9, 0xC3, 0xA9, 256}) == Pieces{"", "", "", "", "ééa", ""});
  CHECK(pieces_of(tokenizer, {0xC3, 0xA9, 0x41}) == Pieces{"", "", "", "éA"});
  CHECK(pieces_of(tokenizer, {0xC3, 0xA9, 0xFF, 0x41, 256, 0x41})
        == Pieces{"", "", "\uFFFD\uFFFD\uFFFD", "\uFFFD", "a", "", "A"});
  CHECK(pieces_of(tokenizer, {0x41, 0xC3, 256}) == Pieces{"", "", "\uFFFD\uFFFDa", ""});
  CHECK(pieces_of(tokenizer, {0x41, 0xC3}) == Pieces{"", "", "\uFFFD\uFFFD"});
}

TEST_CASE("the space that was put before a text is left out of its beginning only") {
  const auto tokenizer = test::make_tokenizer(file_of_bytes());
  CHECK(pieces_of(tokenizer, {257, 257, 256}) == Pieces{"b", " b", "a", ""});
  CHECK(pieces_of(tokenizer, {256, 257}) == Pieces{"a", " b", ""});
  CHECK(pieces_of(tokenizer, {0x20, 0x20, 257}) == Pieces{"", "", "  b", ""});
}

TEST_CASE("what goes on with a text begins with the space between two words, if there is one") {
  auto file = file_of_bytes();
  const auto first_piece = [&](std::int32_t token) {
    const auto tokenizer = test::make_tokenizer(file);
    return TextOfTokens{tokenizer, tokenizer::Begins::continuation}.take(token);
  };
  CHECK(first_piece(257) == " b");
  CHECK(first_piece(256) == "a");
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  CHECK(first_piece(257) == " b");
  CHECK(first_piece(256) == "a");
}

TEST_CASE("special tokens and numbers of no token have no text, and a text can follow another") {
  auto file = test::file_of({"a", "▁b"});
  file["added_tokens"] = Json::array({test::added_token(2, "<s>"), test::added_token(3, "<t>", false)});
  file["decoder"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(pieces_of(tokenizer, {2, 1, 2, 1, 3, 4, -1}) == Pieces{"", "b", "", " b", "<t>", "", "", ""});
  TextOfTokens text{tokenizer};
  CHECK(text.take(1) == "b");
  CHECK(text.take(1) == " b");
  CHECK(text.finish().empty());
  CHECK(text.take(1) == "b");
  auto moved = std::move(text);
  CHECK(moved.take(1) == " b");
}

TEST_CASE("a special token is left out though normalizers change it") {
  auto file = test::file_of({"a", "▁"});
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", "▁"}};
  file["added_tokens"] = Json::array({test::added_token(2, "<s>"), test::added_token(3, "b", false)});
  for (auto& token : file["added_tokens"])
    token["normalized"] = true;
  file["decoder"] = {{"type", "Fuse"}};
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(pieces_of(tokenizer, {2, 0, 3}) == Pieces{"", "a", "▁b", ""});
  CHECK(must(tokenizer.encode("<s>a", false)) == std::vector<std::int32_t>{2, 0});
}

TEST_CASE("without a decoder there are spaces between tokens") {
  const auto tokenizer = test::make_tokenizer(test::file_of({"a", "b"}));
  CHECK(pieces_of(tokenizer, {0, 1, 0}) == Pieces{"a", " b", " a", ""});
}

TEST_CASE("what comes after the tokens are one text goes on from piece to piece") {
  auto file = test::file_of({"xx", "x-", "-"});
  file["decoder"] = Json::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Strip", "content": "x", "start": 3, "stop": 0},
    {"type": "Replace", "pattern": {"String": "-"}, "content": "+"}]})");
  const auto tokenizer = test::make_tokenizer(file);
  CHECK(pieces_of(tokenizer, {0, 0, 1}) == Pieces{"", "x", "x+", ""});
  CHECK(pieces_of(tokenizer, {0, 2, 0}) == Pieces{"", "+", "xx", ""});
}
