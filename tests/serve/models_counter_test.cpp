// Sequences of an actor with state behind a table of models, whose versions take the place of each other.
#include "models_chat.hpp"
#include "zero_digits.hpp"

#include <apps/serve/models/request_check.hpp>
#include <support/eventually.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>

using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::test::eventually;

namespace {

/// Adds up the numbers of each sequence; answers the sum, and which replica it is.
class Counter : public gpuactors::Actor {
public:
  Counter(gpuactors::Init init, const wire::ReplicaConfig& config)
    : Actor(std::move(init)), cache_(config.settings().contains("cache")), number_(++made<Counter>()) {
    if (config.sequence_idle_ms() != 60'000)
      throw std::runtime_error{"it is not told when sequences are forgotten"};
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    wire::ReplicaDescription description;
    const auto fill = [](wire::ReplicaTensor& tensor, const char* name) {
      tensor.set_name(name);
      tensor.set_datatype("INT32");
    };
    fill(*description.add_inputs(), "n");
    fill(*description.add_outputs(), "sum");
    fill(*description.add_outputs(), "replica");
    description.set_sequences(cache_ ? wire::SEQUENCE_MEMORY_CACHE : wire::SEQUENCE_MEMORY_STATE);
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(batch.rows()));
    std::memcpy(numbers.data(), batch.inputs(0).data(), batch.inputs(0).size());
    auto number = numbers.begin();
    for (const auto& one : batch.sequences()) {
      auto own = one.id().empty() || one.start() ? 0 : sums_.at(one.id());
      for (std::int64_t row = 0; row < one.rows(); ++row)
        own = *number++ += own;
      if (one.end())
        sums_.erase(one.id());
      else if (!one.id().empty())
        sums_[one.id()] = own;
    }
    if (number != numbers.end())
      return gpuactors::fail(Errc::internal, "rows that are in no request");
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t));
    numbers.assign(numbers.size(), number_);
    reply.add_outputs()->assign(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t));
    return reply;
  }

private:
  bool cache_;
  int number_;
  std::map<std::string, std::int32_t> sums_;
};

GPUACTORS_ACTOR("test/counter", Counter, wire::ReplicaConfig)
    .method("describe", &Counter::describe)
    .method("infer", &Counter::infer);

InferRequest count_on(const std::vector<std::int32_t>& numbers, const SequenceStep& step) {
  InferRequest request;
  request.model = "counts";
  request.sequence = step;
  request.inputs.push_back({"n", DataType::int32, {static_cast<std::int64_t>(numbers.size())}, Bytes::of(numbers)});
  return request;
}

std::vector<std::int32_t> numbers_of(const NamedTensor& tensor) {
  std::vector<std::int32_t> values(tensor.data.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), tensor.data.view().data(), tensor.data.size());
  return values;
}

bool has_not_come(const std::future<Result<void>>& coming) {
  return coming.wait_for(std::chrono::seconds{0}) != std::future_status::ready;
}

} // namespace

TEST_CASE("an actor with state for each sequence is served", "[serve]") {
  Server server;
  must(server.table.add(must(parse_model("counts,actor=test/counter,replicas=2,max-batch=8", {}))));
  must(server.table.load("counts", {}));
  // All at once: the second request of each does not wait for its client.
  std::vector<std::vector<Asked>> asked(20);
  for (std::size_t i = 0; i < asked.size(); ++i)
    for (int round = 0; round < 10; ++round)
      asked[i].push_back(ask_async(
          server.table, count_on({static_cast<std::int32_t>(i), 1}, {std::to_string(i + 1), round == 0, round == 9})));
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::int32_t sum = 0;
    std::vector<std::int32_t> replicas;
    for (auto& one : asked[i]) {
      const auto reply = must(one.reply.get());
      sum += static_cast<std::int32_t>(i) + 1;
      CHECK(numbers_of(reply.outputs[0]) == std::vector{sum - 1, sum});
      replicas.push_back(numbers_of(reply.outputs[1])[0]);
    }
    CHECK(std::count(replicas.begin(), replicas.end(), replicas[0]) == 10);
  }
  CHECK(says(ask(server.table, count_on({1}, {"1", false, false})), "there is no sequence \"1\""));
  CHECK(numbers_of(must(ask(server.table, count_on({1, 2}, {}))).outputs[0]) == std::vector{1, 3});
}

TEST_CASE("a model that keeps nothing refuses sequences, and a limit bounds those of others", "[serve]") {
  auto request = request_for("digits", some_rows(1, 1));
  request.sequence = {"a", true, false};
  CHECK(says(check_request(request, digits_facts(), 4), "model digits keeps nothing from one request for the next"));
  auto chat = prompt("a");
  chat.sequence = request.sequence;
  CHECK(says(check_generation(chat, chat_facts()), "model chat keeps nothing from one request for the next"));
  Server server;
  must(server.table.add(must(parse_model("counts,actor=test/counter,max-sequences=1", {}))));
  must(server.table.load("counts", {}));
  must(ask(server.table, count_on({1}, {"a", true, false})));
  const auto refused = ask(server.table, count_on({1}, {"b", true, false}));
  CHECK(code_of(refused) == Errc::queue_full);
  CHECK(says(refused, "1 sequences go on, and 1 may"));
  CHECK(numbers_of(must(ask(server.table, count_on({1}, {"a", false, true}))).outputs[0]) == std::vector{2});
  must(ask(server.table, count_on({1}, {"b", true, false})));
}

TEST_CASE("sequences of the version before go on there to their ends, and new ones begin at the new version",
          "[serve]") {
  TableOptions options;
  options.drain = std::chrono::hours{1};
  Server server{options};
  must(server.table.add(must(parse_model("counts,actor=test/counter", {}))));
  must(server.table.load("counts", {}));
  const auto count = [&](std::int32_t number, const SequenceStep& step) {
    const auto reply = must(ask(server.table, count_on({number}, step)));
    return fmt::format("{} by version {}", numbers_of(reply.outputs[0])[0], reply.version);
  };
  const auto serves = [&](const char* version) {
    return eventually([&] { return must(server.table.describe("counts", "")).versions[0] == version; });
  };
  CHECK(count(1, {"a", true, false}) == "1 by version 1");
  CHECK(count(5, {"b", true, false}) == "5 by version 1");
  auto loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(serves("2"));
  CHECK(count(1, {"a", false, false}) == "2 by version 1");
  // What reads a request asks where it goes, also if the request names its version.
  for (const auto* version : {"", "1"}) {
    CHECK(must(server.table.describe("counts", version, {"a", false, false})).versions.back() == "1");
    CHECK_FALSE(must(server.table.generative("counts", version, {"a", false, false})));
  }
  CHECK(code_of(server.table.generative("counts", "1", {"c", false, false})) == Errc::unavailable);
  CHECK(must(server.table.describe("counts", "", {"a", true, false})).versions[0] == "2");
  CHECK(count(3, {"c", true, false}) == "3 by version 2");
  // One that is started anew is at the new version from then on.
  CHECK(count(7, {"b", true, false}) == "7 by version 2");
  CHECK(count(1, {"b", false, true}) == "8 by version 2");
  CHECK(says(ask(server.table, count_on({1}, {"b", false, false})), "there is no sequence \"b\""));
  CHECK(count(1, {}) == "1 by version 2");
  CHECK(has_not_come(loading));
  CHECK(count(1, {"a", false, true}) == "3 by version 1");
  must(loading.get());
  CHECK(says(ask(server.table, count_on({1}, {"a", false, false})), "there is no sequence \"a\""));
  // The end of the server waits for no sequence.
  loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(serves("3"));
  CHECK(count(1, {"c", false, false}) == "4 by version 2");
  server.table.close(Clock::now() + std::chrono::hours{1});
  must(loading.get());
}

TEST_CASE("a sequence stays at the version at which it began, be it the canary or not", "[serve]") {
  for (const auto* setting : {"", ",set=cache=1"}) {
    INFO(setting);
    Server server;
    const auto config = must(parse_model(std::string{"counts,actor=test/counter"} + setting, {}));
    server.table.set({config, CanaryConfig{config, 0.5}});
    must(server.table.settle("counts"));
    const auto count = [&](std::int32_t number, const SequenceStep& step) {
      const auto reply = must(ask(server.table, count_on({number}, step)));
      return fmt::format("{} by version {}", numbers_of(reply.outputs[0])[0], reply.version);
    };
    CHECK(count(1, {"a", true, false}) == "1 by version 1");
    CHECK(count(1, {"b", true, false}) == "1 by version 2");
    for (int i = 2; i < 6; ++i) {
      CHECK(count(1, {"a", false, false}) == fmt::format("{} by version 1", i));
      CHECK(count(1, {"b", false, false}) == fmt::format("{} by version 2", i));
    }
    CHECK(must(server.table.describe("counts", "", {"b", false, false})).versions.back() == "2");
    // One that starts anew is dealt out anew, and is nowhere else from then on.
    CHECK(count(1, {}) == "1 by version 1");
    CHECK(count(7, {"a", true, false}) == "7 by version 2");
    CHECK(count(1, {"a", false, false}) == "8 by version 2");
    // Without a share, a canary goes on with what it has begun.
    server.table.set({config, CanaryConfig{config, 0}});
    CHECK(count(1, {"a", false, true}) == "9 by version 2");
    CHECK(count(1, {"a", true, true}) == "1 by version 1");
  }
}

TEST_CASE("sequences of a canary that is dropped, or becomes the model, go on to their ends", "[serve]") {
  TableOptions options;
  options.drain = std::chrono::hours{1};
  Server server{options};
  const auto config = must(parse_model("counts,actor=test/counter", {}));
  const auto other = must(parse_model("counts,actor=test/counter,max-batch=8", {}));
  const auto count = [&](std::int32_t number, const SequenceStep& step) {
    const auto reply = must(ask(server.table, count_on({number}, step)));
    return fmt::format("{} by version {}", numbers_of(reply.outputs[0])[0], reply.version);
  };
  const auto settle_beside = [&](const ModelEntry& entry) {
    server.table.set(entry);
    return std::async(std::launch::async, [&] { return server.table.settle("counts"); });
  };
  const auto versions = [&] { return must(server.table.describe("counts", "")).versions; };
  must(settle_beside({config, CanaryConfig{other, 0.5}}).get());
  CHECK(count(1, {"a", true, false}) == "1 by version 1");
  CHECK(count(1, {"b", true, false}) == "1 by version 2");
  // It becomes the model, and the one before answers what it has begun.
  auto promoting = settle_beside({other});
  REQUIRE(eventually([&] { return versions() == std::vector<std::string>{"2"}; }));
  CHECK(count(1, {"a", false, false}) == "2 by version 1");
  CHECK(count(1, {"b", false, false}) == "2 by version 2");
  CHECK(count(1, {"c", true, false}) == "1 by version 2");
  CHECK(has_not_come(promoting));
  CHECK(count(1, {"a", false, true}) == "3 by version 1");
  must(promoting.get());
  // Another canary is dropped.
  must(settle_beside({other, CanaryConfig{config, 1}}).get());
  CHECK(count(1, {"d", true, false}) == "1 by version 3");
  auto dropping = settle_beside({other});
  REQUIRE(eventually([&] { return versions() == std::vector<std::string>{"2"}; }));
  CHECK(count(1, {"d", false, false}) == "2 by version 3");
  CHECK(count(1, {"e", true, true}) == "1 by version 2");
  CHECK(has_not_come(dropping));
  CHECK(count(1, {"d", false, true}) == "3 by version 3");
  must(dropping.get());
  CHECK(count(1, {"b", false, true}) == "3 by version 2");
}

TEST_CASE("a start that the new version refuses leaves the sequence at the version before", "[serve]") {
  TableOptions options;
  options.drain = std::chrono::hours{1};
  Server server{options};
  must(server.table.add(must(parse_model("counts,actor=test/counter,max-sequences=1", {}))));
  must(server.table.load("counts", {}));
  must(ask(server.table, count_on({1}, {"a", true, false})));
  auto loading = std::async(std::launch::async, [&] { return server.table.load("counts", {}); });
  REQUIRE(eventually([&] { return must(server.table.describe("counts", "")).versions[0] == "2"; }));
  must(ask(server.table, count_on({1}, {"b", true, false})));
  CHECK(code_of(ask(server.table, count_on({1}, {"a", true, false}))) == Errc::queue_full);
  const auto reply = must(ask(server.table, count_on({1}, {"a", false, true})));
  CHECK(reply.version == "1");
  CHECK(numbers_of(reply.outputs[0]) == std::vector{2});
  must(loading.get());
}

TEST_CASE("what a replica keeps of sequences is part of what it says of itself", "[serve]") {
  auto description = digits_description();
  description.set_sequences(wire::SEQUENCE_MEMORY_CACHE);
  const auto facts = must(read_facts(description));
  CHECK(facts.has_sequences());
  CHECK(facts.max_rows < digits_facts().max_rows);
  CHECK(says(check_same(digits_facts(), description),
             "it keeps SEQUENCE_MEMORY_CACHE of sequences, and the first replica of model digits, version 1 "
             "SEQUENCE_MEMORY_NONE"));
  CHECK(says(check_beside(digits_facts(), facts), "it is x FP32 [8] to y FP32 [3], with SEQUENCE_MEMORY_CACHE, and"));
  CHECK(check_beside(facts, facts));
  description.set_sequences(static_cast<wire::SequenceMemory>(7));
  CHECK(says(read_facts(description), "it keeps 7 between the requests of a sequence: 0 to 2 are known"));
}
