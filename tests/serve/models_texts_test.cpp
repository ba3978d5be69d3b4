// Texts in batches: requests of any length share one, each gets its own texts back, and no batch is larger than a
// message.
#include "models_fixture.hpp"

#include <apps/serve/models/dispatcher.hpp>
#include <apps/serve/models/request_check.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <fmt/format.h>

#include <functional>
#include <mutex>

using namespace serve;
using namespace serve::test;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

std::string elements_of(const std::vector<std::string>& texts) {
  std::string elements;
  for (const auto& text : texts)
    append_bytes_element(elements, text);
  return elements;
}

std::vector<std::string> texts_of(std::span<const std::byte> data) {
  std::vector<std::string> texts;
  while (const auto element = take_bytes_element(data))
    texts.emplace_back(reinterpret_cast<const char*>(element->data()), element->size());
  REQUIRE(data.empty());
  return texts;
}

/// Pairs of texts to one text and one number.
wire::ReplicaDescription pairs_description() {
  wire::ReplicaDescription description;
  auto& pair = *description.add_inputs();
  pair.set_name("pair");
  pair.set_datatype("BYTES");
  pair.add_row_shape(2);
  auto& length = *description.add_outputs();
  length.set_name("length");
  length.set_datatype("INT32");
  auto& joined = *description.add_outputs();
  joined.set_name("joined");
  joined.set_datatype("BYTES");
  return description;
}

ModelFacts pairs_facts() {
  auto facts = must(read_facts(pairs_description()));
  facts.name = "pairs";
  facts.version = "1";
  facts.title = title_of("pairs", "1");
  return facts;
}

InferRequest pairs(const std::vector<std::string>& texts) {
  InferRequest request;
  request.model = "pairs";
  request.inputs.push_back(
      {"pair", DataType::bytes, {static_cast<std::int64_t>(texts.size() / 2), 2}, Bytes::of(elements_of(texts))});
  return request;
}

wire::ReplicaReply join(const wire::ReplicaBatch& batch) {
  const auto texts = texts_of(std::as_bytes(std::span{batch.inputs(0)}));
  REQUIRE(texts.size() == 2 * static_cast<std::size_t>(batch.rows()));
  wire::ReplicaReply reply;
  auto& lengths = *reply.add_outputs();
  auto& joined = *reply.add_outputs();
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    append_bytes_element(joined, texts[i] + texts[i + 1]);
    const auto length = static_cast<std::int32_t>(texts[i].size() + texts[i + 1].size());
    lengths.append(reinterpret_cast<const char*>(&length), sizeof length);
  }
  return reply;
}

/// A dispatcher of such a model, and a replica whose batches the test answers.
class PairsDesk {
public:
  explicit PairsDesk(batching::QueueLimits limits) {
    DispatcherOptions options;
    options.facts = pairs_facts();
    options.limits = limits;
    dispatcher_ = must(Dispatcher::start(std::move(options), [] {}));
  }

  PairsDesk(const PairsDesk&) = delete;
  PairsDesk& operator=(const PairsDesk&) = delete;

  ~PairsDesk() {
    dispatcher_->close({});
  }

  struct Client {
    std::shared_ptr<Pending> pending;
    gpuactors::Future<InferReply> reply;
  };

  Client ask(const std::vector<std::string>& texts) {
    const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
    auto pending = std::make_shared<Pending>(pairs(texts),
                                             [promise](Result<InferReply> reply) { promise->set(std::move(reply)); });
    pending->rows = must(check_request(pending->request, pairs_facts(), 8));
    pending->bytes = pending->request.inputs[0].data.size();
    pending->arrived = gpuactors::Clock::now();
    auto future = promise->future();
    REQUIRE(dispatcher_->submit(pending));
    return {std::move(pending), std::move(future)};
  }

  void add_replica() {
    dispatcher_->add({1, gpuactors::Share{2'500}, 0}, by_messages([this](wire::ReplicaBatch batch, MessageDone done) {
                       const std::lock_guard lock{mutex_};
                       batches_.emplace_back(std::move(batch), std::move(done));
                     }));
  }

  /// Answers the oldest batch. @returns its rows.
  std::int64_t answer(const std::function<Result<wire::ReplicaReply>(const wire::ReplicaBatch&)>& how = join) {
    std::pair<wire::ReplicaBatch, MessageDone> batch;
    {
      const std::lock_guard lock{mutex_};
      REQUIRE_FALSE(batches_.empty());
      batch = std::move(batches_.front());
      batches_.erase(batches_.begin());
    }
    batch.second(how(batch.first));
    return batch.first.rows();
  }

  Dispatcher& dispatcher() {
    return *dispatcher_;
  }

private:
  std::shared_ptr<Dispatcher> dispatcher_;
  std::mutex mutex_;
  std::vector<std::pair<wire::ReplicaBatch, MessageDone>> batches_;
};

/// Repeats a text as often as its setting says, and blames the text "bad".
class Repeater : public gpuactors::Actor {
public:
  Repeater(gpuactors::Init init, const wire::ReplicaConfig& config)
    : Actor(std::move(init)), times_(std::stoi(config.settings().at("times"))) {
    // nop
  }

  wire::ReplicaDescription describe(const google::protobuf::Empty& /*ask*/) {
    wire::ReplicaDescription description;
    for (auto* tensor : {description.add_inputs(), description.add_outputs()}) {
      tensor->set_name("text");
      tensor->set_datatype("BYTES");
    }
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    wire::ReplicaReply reply;
    auto& all = *reply.add_outputs();
    auto data = std::as_bytes(std::span{batch.inputs(0)});
    while (const auto element = take_bytes_element(data)) {
      const std::string text{reinterpret_cast<const char*>(element->data()), element->size()};
      if (text == "bad")
        return gpuactors::fail(Errc::invalid_argument, "a text is bad");
      std::string repeated;
      for (int i = 0; i < times_; ++i)
        repeated += text;
      append_bytes_element(all, repeated);
    }
    return reply;
  }

private:
  int times_;
};

GPUACTORS_ACTOR("test/repeater", Repeater, wire::ReplicaConfig)
    .method("describe", &Repeater::describe)
    .method("infer", &Repeater::infer);

void serve_repeater(Server& server, const std::string& keys) {
  must(server.table.add(must(parse_model("texts,actor=test/repeater," + keys, {}))));
  must(server.table.load("texts", {}));
}

InferRequest texts(const std::vector<std::string>& all) {
  InferRequest request;
  request.model = "texts";
  request.inputs.push_back(
      {"text", DataType::bytes, {static_cast<std::int64_t>(all.size())}, Bytes::of(elements_of(all))});
  return request;
}

} // namespace

TEST_CASE("texts of several requests share a batch, and each gets its own back", "[serve]") {
  PairsDesk desk{{.max_batch = 8}};
  auto first = desk.ask({"a", "", "bcd", "ef"});
  auto gone = desk.ask({"not", "wanted"});
  auto second = desk.ask({"", ""});
  auto third = desk.ask({"g", std::string(1'000, 'h')});
  desk.add_replica();
  desk.dispatcher().cancel(*gone.pending);
  CHECK(desk.answer() == 5);
  CHECK(code_of(gone.reply.get()) == Errc::cancelled);
  const auto reply = must(first.reply.get());
  REQUIRE(reply.outputs.size() == 2);
  CHECK(reply.outputs[0].shape == std::vector<std::int64_t>{2});
  CHECK(reply.outputs[0].data.size() == 8);
  CHECK(reply.outputs[1].type == DataType::bytes);
  CHECK(reply.outputs[1].shape == std::vector<std::int64_t>{2});
  CHECK(texts_of(reply.outputs[1].data.view()) == std::vector<std::string>{"a", "bcdef"});
  CHECK(texts_of(must(second.reply.get()).outputs[1].data.view()) == std::vector<std::string>{""});
  CHECK(texts_of(must(third.reply.get()).outputs[1].data.view())
        == std::vector<std::string>{"g" + std::string(1'000, 'h')});
  CHECK(desk.dispatcher().snapshot().statistics.execution_count == 1);
}

TEST_CASE("a batch of texts is filled as far as their bytes fit", "[serve]") {
  PairsDesk desk{{.max_batch = 8, .max_batch_bytes = 100}};
  std::vector<PairsDesk::Client> clients;
  for (const auto size : {20, 30, 60, 92, 1})
    clients.push_back(desk.ask({std::string(static_cast<std::size_t>(size), 'x'), ""}));
  desk.add_replica();
  std::vector<std::int64_t> rows;
  for (std::size_t answered = 0; answered < clients.size(); answered += static_cast<std::size_t>(rows.back()))
    rows.push_back(desk.answer());
  // With their lengths 28 and 38, 68, 100, and 9.
  CHECK(rows == std::vector<std::int64_t>{2, 1, 1, 1});
  for (auto& client : clients)
    must(client.reply.get());
}

TEST_CASE("texts that wait are counted by their bytes", "[serve]") {
  PairsDesk desk{{.max_batch = 8, .max_bytes = 1'000}};
  auto first = desk.ask({std::string(900, 'x'), ""});
  auto refused = desk.ask({std::string(100, 'x'), ""});
  const auto reply = refused.reply.get();
  CHECK(code_of(reply) == Errc::queue_full);
  CHECK(says(reply, "the queue is full: requests of 908 bytes wait, and 1000 may"));
  desk.add_replica();
  desk.answer();
  must(first.reply.get());
}

TEST_CASE("a reply whose texts are not as many as its rows fails its batch, with the numbers", "[serve]") {
  const auto spoiled = [](const std::function<void(std::string&)>& spoil, const std::string& words) {
    PairsDesk desk{{.max_batch = 8}};
    auto one = desk.ask({"a", "b"});
    auto two = desk.ask({"c", "d"});
    desk.add_replica();
    desk.answer([&](const wire::ReplicaBatch& batch) {
      auto reply = join(batch);
      spoil(*reply.mutable_outputs(1));
      return reply;
    });
    for (auto* client : {&one, &two}) {
      const auto reply = client->reply.get();
      CHECK(code_of(reply) == Errc::task_failed);
      CHECK(says(reply, words));
    }
  };
  spoiled([](auto& texts) { texts.pop_back(); }, "output \"joined\" has 11 bytes, which end within element 1 of 2");
  spoiled([](auto& texts) { texts.resize(6); }, "output \"joined\" has 6 bytes, which end within element 1 of 2");
  spoiled([](auto& texts) { texts[3] = '\x7f'; }, "output \"joined\" has 12 bytes, which end within element 0 of 2");
  spoiled([](auto& texts) { append_bytes_element(texts, ""); }, "has 4 bytes behind its 2 elements");
}

TEST_CASE("requests with texts are checked text by text", "[serve]") {
  CHECK(must(check_request(pairs({"a", "b", "", ""}), pairs_facts(), 8)) == 2);
  const auto refused = [](InferRequest request, const std::string& words) {
    const auto rows = check_request(request, pairs_facts(), 8);
    CHECK(code_of(rows) == Errc::invalid_argument);
    CHECK(says(rows, words));
  };
  auto request = pairs({"a", "b"});
  request.inputs[0].shape = {2, 2};
  refused(request, "input \"pair\" has 10 bytes, which end within element 2 of 4");
  request.inputs[0].shape = {2};
  refused(request, "takes \"pair\" in the shape [rows,2], not [2]");
  request = pairs({"a", "b"});
  request.inputs[0].data = Bytes::of(std::string("\xff\xff\xff\xff", 4));
  refused(request, "has 4 bytes, which end within element 0 of 2");
  request.inputs[0].data = Bytes::of(elements_of({"a", "b", "c"}));
  refused(request, "has 5 bytes behind its 2 elements");
  request.inputs[0].data = {};
  refused(request, "has 0 bytes, which end within element 0 of 2");
  request = pairs({"a", "b"});
  request.inputs[0].type = DataType::uint8;
  refused(request, "takes \"pair\" as BYTES, not as UINT8");
  refused(pairs({std::string(most_message_bytes, 'x'), ""}),
          fmt::format("takes inputs of up to {} bytes in a request, not of {}", most_message_bytes,
                      most_message_bytes + 8));
  must(check_request(pairs({std::string(most_message_bytes - 8, 'x'), ""}), pairs_facts(), 8));
  // What a message says of a sequence takes its room.
  auto facts = pairs_facts();
  facts.sequences = wire::SEQUENCE_MEMORY_CACHE;
  CHECK(batch_bytes(pairs({"a", "b"}), facts) == 10 + sequence_bytes);
  CHECK(code_of(check_request(pairs({std::string(most_message_bytes - 8, 'x'), ""}), facts, 8))
        == Errc::invalid_argument);
}

TEST_CASE("an actor type that takes texts is served, up to texts that fill a message", "[serve]") {
  Server server;
  serve_repeater(server, "set=times=1,max-batch=4");
  const auto model = must(server.table.describe("texts", ""));
  CHECK(model.inputs[0].type == DataType::bytes);
  CHECK(model.inputs[0].shape == std::vector<std::int64_t>{-1});
  CHECK(model.max_batch == 4);
  const std::vector<std::string> some{"one", "", "three"};
  const auto reply = must(ask(server.table, texts(some)));
  CHECK(reply.outputs[0].shape == std::vector<std::int64_t>{3});
  CHECK(texts_of(reply.outputs[0].data.view()) == some);
  const std::string large(most_message_bytes - 4, 'x');
  CHECK(texts_of(must(ask(server.table, texts({large}))).outputs[0].data.view()) == std::vector{large});
  CHECK(says(ask(server.table, texts({large + "x"})), "takes inputs of up to 4194048 bytes in a request, not of"));
  // Four of them have the rows of one batch, and the bytes of four.
  std::vector<Asked> clients;
  for (int i = 0; i < 4; ++i)
    clients.push_back(ask_async(server.table, texts({large})));
  for (auto& client : clients)
    CHECK(texts_of(must(client.reply.get()).outputs[0].data.view()) == std::vector{large});
  const auto statistics = must(server.table.statistics("texts", ""));
  CHECK(statistics[0].execution_count == 6);
}

TEST_CASE("a batch whose answer is larger than a message runs again, request by request", "[serve]") {
  Server server;
  serve_repeater(server, "set=times=3,max-batch=2,max-delay=3600000");
  const std::string fits(1U << 20, 'x');
  auto one = ask_async(server.table, texts({fits}));
  auto two = ask_async(server.table, texts({fits}));
  CHECK(texts_of(must(one.reply.get()).outputs[0].data.view()) == std::vector{fits + fits + fits});
  CHECK(texts_of(must(two.reply.get()).outputs[0].data.view()) == std::vector{fits + fits + fits});
  one = ask_async(server.table, texts({fits + fits}));
  two = ask_async(server.table, texts({"short"}));
  const auto large = one.reply.get();
  CHECK(code_of(large) == Errc::invalid_argument);
  CHECK(says(large, "the answer to this request of 1 rows has 6"));
  CHECK(says(large, ", and a message has at most 4 MiB: ask for less in one request"));
  CHECK(texts_of(must(two.reply.get()).outputs[0].data.view()) == std::vector<std::string>{"shortshortshort"});
}

TEST_CASE("a batch whose answer is larger than a message runs again in halves, and batches grow again in time",
          "[serve]") {
  PairsDesk desk{{.max_batch = 8}};
  std::vector<PairsDesk::Client> clients;
  const auto ask = [&](int rows) {
    for (int i = 0; i < rows; ++i)
      clients.push_back(desk.ask({"a", "b"}));
  };
  const auto large = [](const wire::ReplicaBatch&) -> Result<wire::ReplicaReply> {
    return gpuactors::fail(Errc::invalid_argument, "the message gpuactors.v1.ReplicaReply has 6.5 MiB, at most 4 MiB "
                                                   "are allowed: as the test says");
  };
  ask(8);
  desk.add_replica();
  CHECK(desk.answer(large) == 8);
  for (const auto rows : {4, 4})
    CHECK(desk.answer(join) == rows);
  // One that has more rows than that goes alone.
  ask(1);
  clients.push_back(desk.ask(std::vector<std::string>(12, "c")));
  ask(1);
  for (const auto rows : {1, 6, 1})
    CHECK(desk.answer(join) == rows);
  // After 64 of them it is tried again; three were answered.
  for (int i = 3; i < 64; ++i) {
    ask(5);
    for (const auto rows : {1, 4})
      CHECK(desk.answer(join) == rows);
  }
  ask(9);
  for (const auto rows : {1, 8})
    CHECK(desk.answer(join) == rows);
  for (auto& client : clients)
    must(client.reply.get());
  clients.clear();
  // One alone gets the size.
  auto one = desk.ask({"a", "b"});
  desk.answer(large);
  const auto reply = one.reply.get();
  CHECK(code_of(reply) == Errc::invalid_argument);
  CHECK(says(reply, "the answer to this request of 1 rows has 6.5 MiB, and a message has at most 4 MiB"));
  CHECK(desk.dispatcher().snapshot().counts.failed == 1);
}

TEST_CASE("a text that its actor blames fails its request alone", "[serve]") {
  Server server;
  serve_repeater(server, "set=times=2,max-batch=3,max-delay=3600000");
  auto one = ask_async(server.table, texts({"a"}));
  auto bad = ask_async(server.table, texts({"bad"}));
  auto two = ask_async(server.table, texts({"b"}));
  CHECK(texts_of(must(one.reply.get()).outputs[0].data.view()) == std::vector<std::string>{"aa"});
  CHECK(texts_of(must(two.reply.get()).outputs[0].data.view()) == std::vector<std::string>{"bb"});
  const auto reply = bad.reply.get();
  CHECK(code_of(reply) == Errc::invalid_argument);
  CHECK(says(reply, "a text is bad"));
}
