#include <gpuactors/agent/detail/line_cutter.hpp>

#include <support/catch.hpp>

#include <vector>

using namespace gpuactors::detail;

namespace {

std::vector<std::string> cut(std::size_t most, const std::vector<std::string>& pieces) {
  LineCutter cutter{most};
  std::vector<std::string> lines;
  const auto sink = [&](std::string_view line) { lines.emplace_back(line); };
  for (const auto& piece : pieces)
    cutter.feed(piece, sink);
  cutter.finish(sink);
  return lines;
}

using Lines = std::vector<std::string>;

} // namespace

TEST_CASE("lines are the same however their bytes arrive") {
  CHECK(cut(100, {}) == Lines{});
  CHECK(cut(100, {"a\nb\n"}) == Lines{"a", "b"});
  CHECK(cut(100, {"a", "\n", "", "b\nc", "d"}) == Lines{"a", "b", "cd"});
  CHECK(cut(100, {"a\r", "\n\n\r\nb\rc\r"}) == Lines{"a", "", "", "b\rc"});
  CHECK(cut(100, {"gr\xC3", "\xBC\xC3\x9F", "e\n"})
        == Lines{"gr\xC3\xBC\xC3\x9F"
                 "e"});
}

TEST_CASE("a line that is too long says how much of it is missing") {
  CHECK(cut(4, {"abcd\nabcde\n", "ab", "cdefg", "h\nx"})
        == Lines{"abcd", "abcd [1 more bytes]", "abcd [4 more bytes]", "x"});
  // No character is cut in two.
  CHECK(cut(4, {"abc\xC3\xBC\n"}) == Lines{"abc [2 more bytes]"});
  CHECK(cut(5, {"abc\xC3\xBC!\n"}) == Lines{"abc\xC3\xBC [1 more bytes]"});
  CHECK(cut(5, {"a\xF0\x9F\x92\xA9!\n"}) == Lines{"a\xF0\x9F\x92\xA9 [1 more bytes]"});
  CHECK(cut(4, {"a\xF0\x9F\x92\xA9\n"}) == Lines{"a [4 more bytes]"});
}
