// Processes of other releases, played by a script and by bytes: they are refused in words, or understood.
#include "fixture.hpp"
#include "stranger.hpp"

#include <gpuactors/base/revisions.hpp>
#include <gpuactors/base/version.hpp>
#include <gpuactors/wire/greeting.hpp>

#include <fmt/format.h>
#include <wire/raw_peer.hpp>

#include <csignal>
#include <filesystem>
#include <fstream>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// The first words of a release far from now, without the end of their line.
std::string later_words(std::uint32_t oldest) {
  return fmt::format("gpuactors revisions {} 1003 release 77.0 caf {} and more", oldest, detail::own_greeting().caf);
}

/// Changes the file of a description by an expression of sed: in its place, because it may be in memory.
std::string edited(const std::string& expression) {
  return fmt::format("text=$(sed '{}' \"$5\") && printf '%s\\n' \"$text\" >\"$5\"", expression);
}

/// A program of a node whose place another one takes while the node serves.
class Replaced {
public:
  Replaced() {
    std::filesystem::create_symlink(GPUACTORS_TASK_PROGRAM, program_);
    processes.start_broker();
    processes.start_node("n0", "host:1x64MiB", {"--program", program_.string()});
  }

  /// @param described what is done with the file of the description, "$5", once the real program has written it.
  /// @param settings an expression of sed for the settings of a worker.
  void with(const std::string& described, const std::string& settings = {}) {
    std::filesystem::remove(program_);
    std::ofstream{program_} << "#!/bin/sh\n"
                            << "if [ \"$2\" = --describe ]; then\n"
                            << GPUACTORS_TASK_PROGRAM << " \"$@\" && " << described << "\nexit\nfi\n"
                            << "exec " << GPUACTORS_TASK_PROGRAM << " worker \"$(printf %s \"$2\" | sed '" << settings
                            << "')\"\n";
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
    processes.signal("n0", SIGUSR1);
  }

  Processes processes;

private:
  TemporaryFolder folder_;
  std::filesystem::path program_ = folder_.path() / "program";
};

} // namespace

TEST_CASE("a node stays with its programs if a new one is of a release that it does not understand",
          "[processes][releases]") {
  Replaced node;
  node.with(fmt::format("echo '{}' >\"$5\"", later_words(1001)));
  CHECK(eventually([&] {
    return node.processes.count("the programs stay as they are: ") == 1
           && node.processes.count("runs release 77.0 with revisions 1001 to 1003, and this process") == 1
           && node.processes.count("upgrade this process") == 1;
  }));
  node.with(edited("1d"));
  CHECK(eventually([&] {
    return node.processes.count("the programs stay as they are: ") == 2
           && node.processes.count("runs a release from before revisions") == 1;
  }));
}

TEST_CASE("what a program of a later release says beyond what is known is ignored, and so are a later node's settings",
          "[processes][releases]") {
  Replaced node;
  auto cluster = node.processes.connect();
  node.with(edited(fmt::format("1s/.*/{}/; 2s/^{{/{{\"of_later\":{{\"x\":[1]}},/", later_words(wire_revision))),
            "s/^{/{\"of_later\":[1],/");
  REQUIRE(eventually([&] { return event_of(cluster, "node_renewed").has_value(); }));
  const auto types = must(cluster.described_types());
  auto input = must(types.messages().from_json("examples.Vector", R"({"values":[12]})"));
  const auto output = must(cluster.submit_payload("square_plus", std::move(input), {.gpus = 0.25}).get());
  CHECK(must(types.messages().to_json(output)) == R"({"values":[169]})");
}

TEST_CASE("a broker ends if the one that it stands by for is of a later release, and does not serve beside it",
          "[processes][standby][releases]") {
  Processes processes;
  const RawPort later{later_words(1001) + "\n"};
  const auto store = processes.file("broker.db");
  // One that has never served, and one that has served before: that looks whether the other one serves now.
  const bool has_served = GENERATE(false, true);
  if (has_served) {
    processes.start_broker({"--insecure", "--store", store});
    processes.signal("broker", SIGTERM);
    processes.await_end("broker");
  }
  processes.start_process("former", "127.0.0.1:0",
                          {"--insecure", "--store", store, "--standby-of", to_string(later.address())});
  processes.await_end("former");
  CHECK(processes.count("runs release 77.0 with revisions 1001 to 1003, and this process") == 1);
  CHECK(processes.count("upgrade this process") == 1);
  CHECK(processes.count("broker listens at ") == (has_served ? 1 : 0));
}

TEST_CASE("a broker sends one of a later release away with the reason, and serves on", "[processes][releases]") {
  Processes processes;
  processes.start_broker({"--insecure"});
  processes.start_node("n0", "host:1x64MiB", {"--insecure"});
  const auto& address = processes.broker();
  const Stranger later{static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)))};
  later.say(later_words(1001) + "\n");
  CHECK(later.is_sent_away());
  CHECK(eventually([&] {
    return processes.count("refused a connection from 127.0.0.1: it runs release 77.0 with revisions 1001 to 1003, and "
                           "this process release "
                           + std::string{release})
           == 1;
  }));
  ConnectOptions options;
  options.broker = address;
  options.insecure = true;
  options.heartbeat = std::chrono::milliseconds{200};
  options.link_timeout = Processes::patience;
  CHECK(must(Cluster::connect(options)).state().has_value());
}
