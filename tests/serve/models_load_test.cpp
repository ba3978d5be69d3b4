// Models under load: replicas that are killed, versions that are swapped, replicas that come and go with the queue.
#include "models_fixture.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;

namespace {

/// Clients that ask again and again until they are stopped; each answer is looked at.
class Clients {
public:
  Clients(
      Service& service, int count, std::function<void(const InferReply&)> look = [](const InferReply&) {}) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, &service, look, seed = static_cast<std::uint64_t>(i)] {
        const auto x = some_rows(2, seed);
        while (!stop_) {
          const auto reply = ask(service, request_for("digits", x));
          const std::lock_guard lock{mutex_};
          ++answers_;
          if (reply)
            look(*reply);
          else
            errors_.push_back(to_string(reply.error()));
        }
      });
  }

  ~Clients() {
    stop();
  }

  void stop() {
    stop_ = true;
    for (auto& thread : threads_)
      if (thread.joinable())
        thread.join();
  }

  /// Waits until so many more were answered.
  void await_more(std::uint64_t count) {
    const auto until = answers() + count;
    while (answers() < until)
      std::this_thread::yield();
  }

  std::uint64_t answers() {
    const std::lock_guard lock{mutex_};
    return answers_;
  }

  std::vector<std::string> errors() {
    const std::lock_guard lock{mutex_};
    return errors_;
  }

private:
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::uint64_t answers_ = 0;
  std::vector<std::string> errors_;
  std::vector<std::thread> threads_;
};

void await_replicas(Server& server, std::size_t count) {
  while (must(server.table.describe("digits", "")).replicas != count)
    std::this_thread::yield();
}

} // namespace

TEST_CASE("replicas are spread over the devices and nodes that there are", "[serve]") {
  gpuactors::EmbedOptions options;
  for (const auto* name : {"one", "two"}) {
    options.nodes.emplace_back();
    options.nodes.back().name = name;
    options.nodes.back().devices = "host:2x64MiB";
  }
  auto cluster = must(gpuactors::Cluster::embed(std::move(options)));
  const gpuactors::test::TemporaryFolder folder;
  const auto file = folder / "checkpoint.safetensors";
  write_checkpoint(file, 1);
  ModelTable table{cluster, {}};
  must(table.add(must(parse_model("digits=" + file.string() + ",replicas=4,gpus=0.5", {}))));
  must(table.load("digits", {}));
  std::set<std::string> places;
  const auto state = must(cluster.state());
  for (const auto& lease : state.leases())
    places.insert(lease.node() + "/" + std::to_string(lease.devices(0).index()));
  CHECK(places == std::set<std::string>{"one/0", "one/1", "two/0", "two/1"});
  const auto x = some_rows(2, 1);
  const auto reply = values_of(must(ask(table, request_for("digits", x))));
  for (int i = 0; i < 8; ++i)
    CHECK(values_of(must(ask(table, request_for("digits", x)))) == reply);
}

TEST_CASE("replicas that are killed under load cost no request, and others take their place", "[serve]") {
  Server server;
  server.serve("replicas=2,max-batch=8");
  Clients clients{server.table, 4};
  for (int i = 0; i < 10; ++i) {
    clients.await_more(50);
    const auto names = names_of(server.cluster);
    REQUIRE_FALSE(names.empty());
    must(server.cluster.kill(*std::next(names.begin(), i % static_cast<int>(names.size()))));
  }
  clients.await_more(50);
  clients.stop();
  CHECK(clients.errors() == std::vector<std::string>{});
  await_replicas(server, 2);
  CHECK(must(server.table.statistics("digits", "")).at(0).fail.count == 0);
}

TEST_CASE("what becomes of replicas and versions is noted, but not the first load", "[serve]") {
  Notices notices;
  Server server{{.notice = notices.taker()}};
  server.serve();
  CHECK(notices.take() == std::vector<std::string>{});
  must(server.cluster.kill(*names_of(server.cluster).begin()));
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
  const auto replaced = notices.take();
  REQUIRE(replaced.size() == 2);
  CHECK(replaced[0].find("model digits, version 1: replica 1 was lost: ") == 0);
  CHECK(replaced[1].find("model digits, version 1: replica 2 serves, on node ") == 0);
  must(server.table.load("digits", {}));
  CHECK(notices.take() == std::vector<std::string>{"model digits: version 2 serves in the place of version 1"});
  write_diverged_checkpoint(server.file());
  CHECK_FALSE(server.table.load("digits", {}));
  const auto failed = notices.take();
  REQUIRE(failed.size() == 1);
  CHECK(failed[0].find("model digits could not be loaded: ") == 0);
  must(server.table.unload("digits"));
  CHECK(notices.take() == std::vector<std::string>{"model digits, version 2 is unloaded"});
  write_checkpoint(server.file(), 3);
  must(server.table.load("digits", {}));
  CHECK(notices.take() == std::vector<std::string>{"model digits: version 4 serves"});
  server.table.close(gpuactors::never);
  CHECK(notices.take() == std::vector<std::string>{});
}

TEST_CASE("a model serves again when all its replicas were killed while it had nothing to do", "[serve]") {
  Server server;
  server.serve("replicas=2");
  for (const auto& name : names_of(server.cluster))
    must(server.cluster.kill(name));
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
  await_replicas(server, 2);
}

TEST_CASE("a new version takes the place of the old one without a failed request", "[serve]") {
  Server server;
  server.serve("replicas=2,gpus=0.25,max-batch=8");
  const auto second = server.folder / "second.safetensors";
  write_checkpoint(second, 2);
  // This client's inputs are always the same, so that each version has one answer, but for its last bits: BLAS may sum
  // in another order for another number of rows.
  std::map<std::string, std::vector<float>> answers;
  int wrong = 0;
  Clients clients{server.table, 1, [&answers, &wrong](const InferReply& reply) {
                    const auto values = values_of(reply);
                    const auto& first = answers.emplace(reply.version, values).first->second;
                    wrong += !std::equal(first.begin(), first.end(), values.begin(), values.end(),
                                         [](float a, float b) { return std::abs(a - b) < 1e-5F; });
                  }};
  Clients others{server.table, 3};
  clients.await_more(50);
  // Replaced in place: what runs was read when it was loaded.
  std::filesystem::copy_file(second, server.file(), std::filesystem::copy_options::overwrite_existing);
  must(server.table.load("digits", {}));
  CHECK(must(server.table.describe("digits", "")).versions == std::vector<std::string>{"2"});
  clients.await_more(50);
  clients.stop();
  others.stop();
  CHECK(clients.errors() == std::vector<std::string>{});
  CHECK(others.errors() == std::vector<std::string>{});
  CHECK(wrong == 0);
  CHECK(answers.size() == 2);
  CHECK(answers["1"] != answers["2"]);
  const auto y = expected(second, some_rows(2, 0));
  for (std::size_t i = 0; i < y.size(); ++i)
    CHECK(answers["2"].at(i) == Approx(y[i]).margin(1e-5));
  CHECK(names_of(server.cluster).size() == 2);
}

TEST_CASE("a replica that is started later has the file as it was when the version was loaded", "[serve]") {
  Server server;
  server.serve();
  const auto x = some_rows(1, 1);
  const auto before = values_of(must(ask(server.table, request_for("digits", x))));
  write_checkpoint(server.file(), 2);
  must(server.cluster.kill(*names_of(server.cluster).begin()));
  const auto reply = must(ask(server.table, request_for("digits", x)));
  CHECK(reply.version == "1");
  CHECK(values_of(reply) == before);
}

TEST_CASE("a version that answers no numbers is refused, and the old one serves on", "[serve]") {
  Server server;
  server.serve();
  write_diverged_checkpoint(server.file());
  const auto loaded = server.table.load("digits", {});
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code() == Errc::invalid_argument);
  CHECK(says(loaded, "with what is no finite number"));
  CHECK(must(ask(server.table, request_for("digits", some_rows(1, 1)))).version == "1");
}

TEST_CASE("a version without room beside the only replica of the old one is refused, and that serves on", "[serve]") {
  Server server{{.load_wait = 100ms}, "host:1x64MiB"};
  server.serve("gpus=1");
  const auto loaded = server.table.load("digits", {});
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code() == Errc::no_capacity);
  CHECK(says(loaded, "version 1 keeps its only replica"));
  CHECK(must(ask(server.table, request_for("digits", some_rows(1, 1)))).version == "1");
}

TEST_CASE("a model that lacks replicas says how many it wants, and that starts fail", "[serve]") {
  Server server{{}, "host:1x64MiB"};
  server.serve("gpus=1,replicas=2");
  const auto metrics = server.table.metrics();
  INFO(metrics);
  for (const auto* line : {"gpuactors_serve_model_ready{model=\"digits\"} 1\n",
                           "gpuactors_serve_replicas{model=\"digits\",version=\"1\"} 1\n",
                           "gpuactors_serve_replicas_wanted{model=\"digits\",version=\"1\"} 2\n"})
    CHECK(metrics.find(line) != std::string::npos);
  const std::string failed = "gpuactors_serve_starts_failed{model=\"digits\",version=\"1\"} ";
  REQUIRE(metrics.find(failed) != std::string::npos);
  CHECK(metrics.find(failed + "0\n") == std::string::npos);
  must(server.table.unload("digits"));
  CHECK(server.table.metrics().find("gpuactors_serve_model_ready{") == std::string::npos);
}

TEST_CASE("replicas for which there was no room at the start come when there is, also beyond the least", "[serve]") {
  Server server{{}, "host:2x64MiB"};
  auto other = must(server.cluster.create_group({{.gpus = 1}}));
  server.serve("gpus=1,replicas=2,min-replicas=1,max-replicas=2");
  CHECK(must(server.table.describe("digits", "")).replicas == 1);
  must(server.cluster.remove_group(other.id));
  await_replicas(server, 2);
}

TEST_CASE("where replicas have all that there is, versions change replica by replica without a failed request",
          "[serve]") {
  Notices notices;
  Server server{{.load_wait = 100ms, .notice = notices.taker()}, "host:1x64MiB"};
  server.serve("replicas=4,gpus=0.25,max-batch=8");
  Clients clients{server.table, 4};
  clients.await_more(50);
  write_checkpoint(server.file(), 2);
  must(server.table.load("digits", {}));
  CHECK(must(server.table.describe("digits", "")).versions == std::vector<std::string>{"2"});
  clients.await_more(50);
  await_replicas(server, 4);
  clients.stop();
  CHECK(clients.errors() == std::vector<std::string>{});
  // The old one kept the half of its replicas until the new one served.
  const auto lines = notices.take();
  const auto swap = std::find(lines.begin(), lines.end(), "model digits: version 2 serves in the place of version 1");
  REQUIRE(swap != lines.end());
  CHECK(std::count_if(lines.begin(), swap,
                      [](const std::string& line) {
                        return line.find("has made room for the next version") != std::string::npos;
                      })
        == 2);
}

TEST_CASE("what is given up to the next version is not taken by replicas that the old one lacks", "[serve]") {
  Server server{{.load_wait = 500ms}, "host:1x64MiB"};
  server.serve("replicas=4,gpus=0.3"); // of which 3 have room, and the fourth is tried again and again
  await_replicas(server, 3);
  must(server.table.load("digits", {}));
  await_replicas(server, 3);
  CHECK(must(ask(server.table, request_for("digits", some_rows(1, 1)))).version == "2");
}

TEST_CASE("what was given up for a version that cannot serve comes back", "[serve]") {
  Server server{{.load_wait = 100ms}, "host:1x64MiB"};
  server.serve("replicas=2,gpus=0.5");
  write_diverged_checkpoint(server.file());
  const auto loaded = server.table.load("digits", {});
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code() == Errc::invalid_argument);
  await_replicas(server, 2);
  CHECK(must(ask(server.table, request_for("digits", some_rows(1, 1)))).version == "1");
  // Once more: two attempts that fail leave no less than one.
  REQUIRE_FALSE(server.table.load("digits", {}));
  await_replicas(server, 2);
}

TEST_CASE("a new version begins with as many replicas as the old one has come to", "[serve]") {
  Server server;
  server.serve(gated_key + "min-replicas=1,max-replicas=3,max-batch=1,gpus=0.25");
  {
    const ClosedGate closed;
    std::vector<Asked> asked;
    for (std::uint64_t i = 1; i <= 8; ++i)
      asked.push_back(ask_async(server.table, request_for("digits", some_rows(1, i))));
    gate().await(3);
    gate().open();
    for (auto& one : asked)
      must(one.reply.get());
  }
  REQUIRE(must(server.table.describe("digits", "")).replicas == 3);
  must(server.table.load("digits", {}));
  CHECK(must(server.table.describe("digits", "")).replicas == 3);
}

TEST_CASE("replicas come with a queue and go when they are idle", "[serve]") {
  Server server;
  server.serve(gated_key + "min-replicas=1,max-replicas=3,max-batch=1,idle-after=0.3");
  await_replicas(server, 1);
  {
    const ClosedGate closed;
    std::vector<Asked> asked;
    for (std::uint64_t i = 1; i <= 8; ++i)
      asked.push_back(ask_async(server.table, request_for("digits", some_rows(1, i))));
    gate().await(3);
    CHECK(must(server.table.describe("digits", "")).replicas == 3);
    gate().open();
    for (auto& one : asked)
      must(one.reply.get());
  }
  await_replicas(server, 1);
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
  while (must(server.cluster.state()).leases_size() != 1)
    std::this_thread::yield();
}

TEST_CASE("a replica that is stuck does not keep the others from serving", "[serve]") {
  Server server;
  server.serve(gated_key + "replicas=2,max-batch=1");
  const ClosedGate closed;
  auto stuck = ask_async(server.table, request_for("digits", some_rows(1, 1)));
  gate().await(1);
  // Ended while its method runs: the request goes to the other one.
  const auto names = names_of(server.cluster);
  REQUIRE(names.size() == 2);
  must(server.cluster.kill(*names.begin()));
  gate().await(2);
  gate().open();
  CHECK(values_of(must(stuck.reply.get()))[0] == some_rows(1, 1)[0]);
}
