// Texts that end answers, found although they come in pieces.
#include <apps/llm/stop_texts.hpp>
#include <support/catch.hpp>

#include <string>
#include <vector>

using llm::StopTexts;

namespace {

/// What is passed on of pieces, with '|' behind each, and '!' where the end was found; the rest comes behind '~'.
std::string pass(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopTexts texts{stops};
  std::string passed;
  for (const auto& piece : pieces) {
    const auto [text, ended] = texts.take(piece);
    passed += text + "|";
    if (ended)
      return passed + "!";
  }
  return passed + "~" + std::move(texts).rest();
}

} // namespace

TEST_CASE("a text ends at the first of its stop texts, wherever pieces are cut", "[llm]") {
  CHECK(pass({"END"}, {"a", "EN", "D b"}) == "a|||!");
  CHECK(pass({"END"}, {"aENDbENDc"}) == "a|!");
  CHECK(pass({"END", "NE"}, {"onE NE"}) == "onE |!");
  CHECK(pass({"b", "ab"}, {"xab"}) == "x|!"); // the one that begins first
  CHECK(pass({"aab"}, {"a", "a", "a", "b"}) == "||a||!");
  CHECK(pass({"\n\n"}, {"one\n", "two\n", "\nthree"}) == "one|\ntwo||!");
}

TEST_CASE("what only looks like a stop text is passed on, at the latest at the end", "[llm]") {
  CHECK(pass({"END"}, {"EN", "ED", "E"}) == "|ENED||~E");
  CHECK(pass({}, {"a", "b"}) == "a|b|~");
  CHECK(pass({"abcabd"}, {"abcab", "cabd"}) == "|abc|!");
}
