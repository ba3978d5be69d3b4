// What a program says about arguments that its parser refuses.
#include <apps/cli/cluster_options.hpp>
#include <apps/cli/usage.hpp>
#include <support/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace gpuactors;

namespace {

/// What is said of these arguments; empty if they are right.
std::string said_of(std::vector<std::string> arguments) {
  CLI::App program{"", "tool"};
  int number = 0;
  double part = 0;
  bool loud = false;
  ConnectOptions connection;
  program.add_option("--number", number, "")->type_name("N");
  program.add_option("--count", number, "")->check(CLI::Range(1, 4096));
  program.add_option("--part", part, "")->check(CLI::Range(0.0, 3'600.0));
  program.add_flag("--loud", loud, "");
  cli::add_connection(program, connection);
  std::reverse(arguments.begin(), arguments.end()); // as the parser wants them
  try {
    program.parse(std::move(arguments));
    return "";
  } catch (const CLI::ParseError& error) {
    return cli::explain(program, error);
  }
}

} // namespace

TEST_CASE("an option that has no value, or too many, says what it takes") {
  CHECK(said_of({"--broker"}) == "--broker needs a value: HOST:PORT,...; see tool --help");
  CHECK(said_of({"--certs", "a", "--certs", "b"})
        == "--certs is given 2 times: at most 1 is expected; see tool --help");
}

TEST_CASE("a value that cannot be read says what would be one") {
  CHECK(said_of({"--number", "x"}) == "--number is \"x\": a whole number is expected; see tool --help");
  CHECK(said_of({"--loud=x"}) == "--loud is \"x\": it takes no value; see tool --help");
}

TEST_CASE("a value of any length is refused in words") {
  const std::string value(100'000, 'x');
  CHECK(said_of({"--number", value}).find(value) != std::string::npos);
}

TEST_CASE("a number that is out of its range says the range, as people write it") {
  CHECK(said_of({"--part", "5000"}) == "--part is \"5000\": 0 to 3600 is expected; see tool --help");
  CHECK(said_of({"--count", "0"}) == "--count is \"0\": 1 to 4096 is expected; see tool --help");
}

TEST_CASE("a time that is none says what one is") {
  CHECK(said_of({"--heartbeat="}) == "--heartbeat needs a value: SECONDS; see tool --help");
  for (const std::string time : {"often", "-1", "nan"})
    CHECK(said_of({"--heartbeat=" + time})
          == "--heartbeat is \"" + time + "\": seconds are expected, such as 0.5; see tool --help");
  CHECK(said_of({"--heartbeat", "0.5", "--link-timeout", "2"}).empty());
}

TEST_CASE("the help of the connection names the variables that stand for its options") {
  CLI::App program{"", "tool"};
  ConnectOptions connection;
  cli::add_connection(program, connection);
  const auto help = program.help();
  CHECK(help.find("GPUACTORS_BROKER") != std::string::npos);
  CHECK(help.find("GPUACTORS_CERTS") != std::string::npos);
}
