// Command lines that people paste: what a shell makes of them, and that they reach the cluster they were written for.
#include <apps/cli/command_line.hpp>
#include <support/catch.hpp>

#include <filesystem>
#include <string>

using namespace gpuactors;
using namespace std::chrono_literals;
using cli::connection_arguments;
using cli::shell_quoted;

namespace {

ConnectOptions at_broker(const std::string& certificates = {}) {
  ConnectOptions options;
  options.broker = "10.0.0.1:7711";
  options.certificates = certificates;
  return options;
}

} // namespace

TEST_CASE("a word stays as it is where nothing in it means anything to a shell") {
  for (const std::string word : {"10.0.0.1:7711,10.0.0.2:7711", "/etc/gpuactors/certs", "a-b_c+d@e%f"})
    CHECK(shell_quoted(word) == word);
}

TEST_CASE("a word in which something means more to a shell is quoted, whatever it is") {
  CHECK(shell_quoted("") == "''");
  CHECK(shell_quoted("my certs") == "'my certs'");
  CHECK(shell_quoted("~/certs") == "'~/certs'");
  CHECK(shell_quoted("$(reboot);`x`*?[a]{b,c}!#&|<>\"\\\n=") == "'$(reboot);`x`*?[a]{b,c}!#&|<>\"\\\n='");
  CHECK(shell_quoted("it's") == R"('it'\''s')");
  CHECK(shell_quoted("k\xC3\xB6ln") == "'k\xC3\xB6ln'");
}

TEST_CASE("a command for another shell names the broker, and the certificates that were named here") {
  CHECK(connection_arguments(at_broker()) == "--broker 10.0.0.1:7711");
  CHECK(connection_arguments(at_broker("/etc/my certs")) == "--broker 10.0.0.1:7711 --certs '/etc/my certs'");
  CHECK(connection_arguments({}).empty());
}

TEST_CASE("a folder is named so that it is the same one in any other folder") {
  const auto here = std::filesystem::current_path().string();
  CHECK(connection_arguments(at_broker("certs")) == "--broker 10.0.0.1:7711 --certs " + shell_quoted(here + "/certs"));
}

TEST_CASE("plaintext is plaintext in another shell too, and needs no certificates there") {
  auto options = at_broker("/etc/certs");
  options.insecure = true;
  CHECK(connection_arguments(options) == "--broker 10.0.0.1:7711 --insecure");
}

TEST_CASE("times that the cluster was started with are named where they are not the usual ones") {
  auto options = at_broker();
  options.heartbeat = 250ms;
  options.link_timeout = 20s;
  options.reconnect_grace = 60s; // of this program alone
  CHECK(connection_arguments(options) == "--broker 10.0.0.1:7711 --heartbeat 0.25 --link-timeout 20");
}
