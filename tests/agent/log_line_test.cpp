#include <gpuactors/agent/log_line.hpp>

#include <support/catch.hpp>

using namespace gpuactors;

namespace {

const LogTime moment = std::chrono::sys_days{std::chrono::year{2026} / 11 / 21} + std::chrono::hours{9}
                       + std::chrono::minutes{41} + std::chrono::seconds{1} + std::chrono::microseconds{250};

} // namespace

TEST_CASE("a line of a log is text with tabs between") {
  const LogLine line{moment, "node1", "worker-3", OutputStream::err, "out of\tmemory"};
  CHECK(to_string(line) == "2026-11-21T09:41:01.000250Z\tnode1\tworker-3\tstderr\tout of\tmemory");
  CHECK(parse_log_line(to_string(line)) == line);
  const LogLine empty{LogTime{}, "", "", OutputStream::out, ""};
  CHECK(to_string(empty) == "1970-01-01T00:00:00.000000Z\t\t\tstdout\t");
  CHECK(parse_log_line(to_string(empty)) == empty);
}

TEST_CASE("whatever is logged stays on its line and in its field") {
  const LogLine line{moment + std::chrono::nanoseconds{1}, "no\tde", "a\nb", OutputStream::out,
                     std::string("x\ny\0z\xFF", 6)};
  CHECK(parse_log_line(to_string(line))
        == LogLine{moment, "no de", "a b", OutputStream::out, "x y\xEF\xBF\xBDz\xEF\xBF\xBD"});
}

TEST_CASE("a line that was cut within a character is text all the same") {
  const std::string good = "2026-11-21T09:41:01.000250Z\tnode1\tworker-3\tstdout\t\xC3\xBC";
  CHECK(parse_log_line(good)->text == "\xC3\xBC");
  CHECK(parse_log_line(good.substr(0, good.size() - 1))->text == "\xEF\xBF\xBD");
  const auto broken = parse_log_line("2026-11-21T09:41:01.000250Z\t\xFFn\tw\xC3\tstdout\tx");
  REQUIRE(broken);
  CHECK(broken->node == "\xEF\xBF\xBDn");
  CHECK(broken->source == "w\xEF\xBF\xBD");
}

TEST_CASE("what is no line of a log is not taken for one") {
  const std::string good = "2026-11-21T09:41:01.000250Z\tnode1\tworker-3\tstdout\t";
  REQUIRE(parse_log_line(good));
  CHECK_FALSE(parse_log_line(""));
  CHECK_FALSE(parse_log_line(good.substr(0, good.size() - 1)));
  CHECK_FALSE(parse_log_line(good.substr(1)));
  CHECK_FALSE(parse_log_line("2026-11-21T09:41:01.000250Z\tnode1\tworker-3\tstdin\t"));
  CHECK_FALSE(parse_log_line("2026-02-30T09:41:01.000250Z\tnode1\tworker-3\tstdout\t"));
  CHECK_FALSE(parse_log_line("2026-11-21 09:41:01.000250Z\tnode1\tworker-3\tstdout\t"));
  CHECK_FALSE(parse_log_line("2026-11-21T09:41:01.00025-Z\tnode1\tworker-3\tstdout\t"));
}
