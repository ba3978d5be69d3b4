#include <apps/cli/plain_output.hpp>
#include <apps/gpuactors/table.hpp>
#include <support/catch.hpp>

#include <iostream>
#include <sstream>
#include <streambuf>
#include <thread>
#include <vector>

using namespace gpuactors::cli;

namespace {

/// What `write` has written to std::cout while it was plain.
template <class Write>
std::string plainly(Write write) {
  std::ostringstream terminal;
  auto* const before = std::cout.rdbuf(terminal.rdbuf());
  {
    const PlainOutput plain;
    write();
  }
  std::cout.rdbuf(before);
  return terminal.str();
}

} // namespace

TEST_CASE("control characters are shown, and not obeyed") {
  CHECK(plain_text("title \x1b]0;mine\x07 clear \x1b[2J\x1b[H")
        == "title \\u001b]0;mine\\u0007 clear \\u001b[2J\\u001b[H");
  CHECK(plain_text("over\rthere\b\x7f") == "over\\u000dthere\\u0008\\u007f");
  CHECK(plain_text("\xc2\x9b"
                   "2J \xc2\x85 \xc2\xa0")
        == "\\u009b2J \\u0085 \xc2\xa0");
  CHECK(plain_text("a\tb\nc\n") == "a\tb\nc\n");
  CHECK(plain_text("gr\xc3\xbc\xc3\x9f").size() == 6);
  CHECK(plain_text("").empty());
}

TEST_CASE("what is not UTF-8 is replaced") {
  CHECK(plain_text("a\x9b[2J") == "a\xEF\xBF\xBD[2J");
  CHECK(plain_text({"a\0b", 3})
        == "a\xEF\xBF\xBD"
           "b");
}

TEST_CASE("colours stay, and end with their line") {
  CHECK(plain_text("\x1b[31mred\x1b[0m\n") == "\x1b[31mred\x1b[0m\n");
  CHECK(plain_text("\x1b[31mred\x1b[m") == "\x1b[31mred\x1b[m");
  CHECK(plain_text("\x1b[38;5;9mred\nnext\n") == "\x1b[38;5;9mred\x1b[0m\nnext\n");
  CHECK(plain_text("\x1b[38:2:1:2:3mred") == "\x1b[38:2:1:2:3mred\x1b[0m");
  CHECK(plain_text("\x1b[31") == "\\u001b[31");
  CHECK(plain_text("\x1b[?1m\x1b[3;4Hm") == "\\u001b[?1m\\u001b[3;4Hm");
}

TEST_CASE("a JSON document is the same document") {
  CHECK(plain_text("{\"a\":\"\\u001b[2J\",\"b\":\"\x7f\"}") == "{\"a\":\"\\u001b[2J\",\"b\":\"\\u007f\"}");
}

TEST_CASE("standard output is plain, line by line and when it is flushed") {
  CHECK(plainly([] {
          std::cout << "a\x1b"
                    << "[2J" << '\n'
                    << "b";
        })
        == "a\\u001b[2J\nb");
  // A colour, and a letter of two bytes, may come in two parts of a line.
  CHECK(plainly([] {
          std::cout << "\x1b[3"
                    << "1m\xc3" << '\xbc' << '\n';
        })
        == "\x1b[31m\xc3\xbc\x1b[0m\n");
  CHECK(plainly([] { std::cout << "a\x1b" << std::flush << "[2J"; }) == "a\\u001b[2J");
}

TEST_CASE("threads that write at once write whole lines") {
  const auto text = plainly([] {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([] {
        for (int line = 0; line < 100; ++line)
          std::cout.rdbuf()->sputn("line\n", 5);
      });
  });
  CHECK(text.size() == 4 * 100 * 5);
  CHECK(text.find("line\nline\n") == 0);
}

TEST_CASE("output that nobody takes is an error") {
  struct Full : std::streambuf {};
  Full full;
  auto* const before = std::cout.rdbuf(&full);
  {
    const PlainOutput plain;
    std::cout << "line\n";
    CHECK_FALSE(std::cout.good());
    std::cout.clear();
  }
  std::cout.rdbuf(before);
}

TEST_CASE("a cell of several lines passes for no other row") {
  Table table{{"NAME", "REASON"}};
  table.add({"a", "it failed\nb     all is well"});
  std::ostringstream out;
  table.print(out);
  CHECK(out.str() == "NAME  REASON\na     it failed b     all is well\n");
}
