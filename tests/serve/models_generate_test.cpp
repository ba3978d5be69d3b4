// Generative models of actor types: what is served from a table, and what becomes of streams.
#include "models_fixture.hpp"

#include <apps/serve/protocol/tensor_rules.hpp>
#include <support/eventually.hpp>

#include <atomic>
#include <condition_variable>
#include <future>
#include <thread>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using google::protobuf::Empty;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// What the actors of this file have seen.
struct Seen {
  std::atomic<int> described{0};
  std::atomic<int> begun{0};
  std::atomic<int> stopped{0};
  std::atomic<bool> go_on{false};
};

Seen& seen() {
  static Seen all;
  return all;
}

/// Answers as its requests say: "N" by so many items, "hold N" by so many and no end until the test says so, "crash N"
/// by so many and its death, "mumble N" like "hold N" and by errors to who asks for its description from then on,
/// "stick N" by so many and no more answers to anybody, "bad" by an item that makes no sense, "refuse" by an error.
class Chatter : public gpuactors::Actor {
public:
  Chatter(gpuactors::Init init, const wire::ReplicaConfig& config) : Actor(std::move(init)), config_(config) {
    // nop
  }

  wire::ReplicaDescription describe(const Empty& /*ask*/) {
    ++seen().described;
    if (mumbles_)
      throw std::runtime_error{"it cannot say at the moment"};
    wire::ReplicaDescription description;
    for (auto* tensor : {description.add_inputs(), description.add_outputs()}) {
      tensor->set_name("text");
      tensor->set_datatype(config_.settings().contains("rows") ? "TEXT" : "BYTES");
      tensor->add_shape(1);
    }
    if (config_.settings().contains("running"))
      description.set_max_running(std::stoll(config_.settings().at("running")));
    return description;
  }

  Result<void> generate(const wire::GenerateRequest& request, gpuactors::ReplyStream<wire::GenerateReply>& out) {
    ++seen().begun;
    const auto text = request.inputs(0).data().substr(4);
    const auto space = text.find(' ');
    const auto what = space == std::string::npos ? "" : text.substr(0, space);
    if (text == "refuse")
      return gpuactors::fail(Errc::invalid_argument, "nobody says that here");
    GPUACTORS_LET(reply, out.keep());
    const auto count = text == "bad" ? 1 : std::stoi(what.empty() ? text : text.substr(space));
    for (int i = 0; i < count; ++i)
      GPUACTORS_TRY(reply.write(item(request.id() + std::to_string(i), text == "bad" ? 2 : 1)));
    if (what == "crash") {
      dying_.push_back(std::move(reply));
      post([] { throw std::runtime_error{"a cosmic ray"}; });
    } else if (what == "stick") {
      dying_.push_back(std::move(reply));
      post([this] {
        while (!seen().go_on && !stop_requested())
          std::this_thread::yield();
        dying_.clear();
      });
    } else if (what == "hold" || what == "mumble" || text == "bad") {
      mumbles_ = what == "mumble";
      held_.push_back(std::move(reply));
      if (held_.size() == 1)
        post([this] { look(); });
    } else {
      reply.finish();
    }
    return {};
  }

private:
  static wire::GenerateReply item(const std::string& text, std::int64_t size) {
    wire::GenerateReply reply;
    auto& output = *reply.add_outputs();
    output.set_name("text");
    output.add_shape(size);
    append_bytes_element(*output.mutable_data(), text);
    return reply;
  }

  void look() {
    for (auto reply = held_.begin(); reply != held_.end();) {
      const auto stopped = reply->stop_requested();
      if (!stopped && !seen().go_on) {
        ++reply;
        continue;
      }
      seen().stopped += stopped ? 1 : 0;
      reply->finish();
      reply = held_.erase(reply);
    }
    if (!held_.empty())
      post_after(1ms, [this] { look(); });
  }

  wire::ReplicaConfig config_;
  bool mumbles_ = false;
  std::vector<gpuactors::OpenStream<wire::GenerateReply>> held_;
  std::vector<gpuactors::OpenStream<wire::GenerateReply>> dying_;
};

GPUACTORS_ACTOR("test/chatter", Chatter, wire::ReplicaConfig)
    .method("describe", &Chatter::describe)
    .method("generate", &Chatter::generate);

/// A type that does both, and one whose method generates something else.
class Undecided : public Chatter {
public:
  using Chatter::Chatter;

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& /*batch*/) {
    return wire::ReplicaReply{};
  }

  Result<wire::GenerateReply> generate_one(const wire::GenerateRequest& /*request*/) {
    return wire::GenerateReply{};
  }
};

GPUACTORS_ACTOR("test/undecided", Undecided, wire::ReplicaConfig)
    .method("describe", &Undecided::describe)
    .method("infer", &Undecided::infer)
    .method("generate", &Undecided::generate);
GPUACTORS_ACTOR("test/generates-one", Undecided, wire::ReplicaConfig)
    .method("describe", &Undecided::describe)
    .method("generate", &Undecided::generate_one);

InferRequest say(const std::string& text, const std::string& id = "") {
  InferRequest request;
  request.model = "chat";
  request.id = id;
  std::string element;
  append_bytes_element(element, text);
  request.inputs.push_back({"text", DataType::bytes, {1}, Bytes::of(std::move(element))});
  return request;
}

Result<std::optional<InferReply>> next_of(Service::Replies& replies) {
  const auto promise = std::make_shared<std::promise<Result<std::optional<InferReply>>>>();
  replies.next([promise](Result<std::optional<InferReply>> reply) { promise->set_value(std::move(reply)); });
  return promise->get_future().get();
}

std::string text_of(const Result<std::optional<InferReply>>& reply) {
  if (!reply)
    return to_string(reply.error());
  if (!*reply)
    return "END";
  auto data = (*reply)->outputs.at(0).data.view().subspan(4);
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

/// All texts of a stream, and its end.
std::vector<std::string> read_all(Service::Replies& replies) {
  std::vector<std::string> texts;
  for (;;) {
    const auto reply = next_of(replies);
    texts.push_back(text_of(reply));
    if (!reply || !*reply)
      return texts;
  }
}

/// A server with a model "chat".
struct ChatServer {
  explicit ChatServer(const std::string& keys = "", TableOptions options = {}) : server(std::move(options)) {
    seen().begun = seen().stopped = 0;
    seen().go_on = false;
    loaded = load("actor=test/chatter" + (keys.empty() ? "" : "," + keys));
  }

  Result<void> load(const std::string& keys) {
    must(server.table.add(must(parse_model("chat," + keys, {}))));
    return server.table.load("chat", {});
  }

  template <class F>
  void until(F holds) const {
    REQUIRE(gpuactors::test::eventually(holds));
  }

  [[nodiscard]] bool metrics_have(const std::string& line) const {
    return server.table.metrics().find(line) != std::string::npos;
  }

  Server server;
  Result<void> loaded;
};

void check_no_chat(const std::string& type, const std::string& keys, const std::string& words) {
  Server server;
  must(server.table.add(must(parse_model("chat,actor=" + type + keys, {}))));
  const auto loaded = server.table.load("chat", {});
  CHECK(code_of(loaded) == Errc::invalid_argument);
  CHECK(says(loaded, words));
  CHECK(must(server.cluster.state()).leases_size() == 0);
}

} // namespace

TEST_CASE("an actor type with the method generate is served as it describes itself, request by request", "[serve]") {
  ChatServer chat{"max-running=4,set=running=3"};
  must(chat.loaded);
  const auto model = must(chat.server.table.describe("chat", ""));
  CHECK(model.generative);
  CHECK(model.max_batch == 0);
  CHECK(model.max_running == 3);
  CHECK(model.inputs[0].shape == std::vector<std::int64_t>{1});
  CHECK(model.inputs[0].type == DataType::bytes);
  CHECK(must(chat.server.table.generative("chat", "1", {})));
  CHECK(code_of(chat.server.table.generative("chit", "", {})) == Errc::not_found);
  const auto replies = chat.server.table.generate(say("3", "a"));
  CHECK(read_all(*replies) == std::vector<std::string>{"a0", "a1", "a2", "END"});
  // More than the window of a stream, and than one message.
  CHECK(read_all(*chat.server.table.generate(say("500"))).size() == 501);
  CHECK(chat.metrics_have("gpuactors_serve_items{model=\"chat\",version=\"1\"} 503"));
  CHECK(chat.metrics_have("gpuactors_serve_running{model=\"chat\",version=\"1\"} 0"));
  CHECK(chat.metrics_have("gpuactors_serve_first_item_seconds_count{model=\"chat\",version=\"1\"} 2"));
  CHECK(chat.metrics_have("nv_inference_request_success{model=\"chat\",version=\"1\"} 2"));
}

TEST_CASE("what a generative model cannot take is refused before an actor sees it", "[serve]") {
  ChatServer chat;
  must(chat.loaded);
  auto request = say("3");
  request.inputs[0].name = "txt";
  CHECK(text_of(next_of(*chat.server.table.generate(request))).find("has no input \"txt\"") != std::string::npos);
  request = say("3");
  request.model = "chit";
  CHECK(text_of(next_of(*chat.server.table.generate(request))).find("did you mean \"chat\"?") != std::string::npos);
  CHECK(seen().begun == 0);
  const auto unary = ask(chat.server.table, say("3"));
  CHECK(code_of(unary) == Errc::unsupported);
  CHECK(says(unary, "model chat answers with a stream: ask it by ModelStreamInfer"));
  chat.server.serve();
  auto digits = request_for("digits", some_rows(1, 1));
  CHECK(text_of(next_of(*chat.server.table.generate(digits))).find("answers with one reply") != std::string::npos);
  CHECK_FALSE(must(chat.server.table.generative("digits", "", {})));
}

TEST_CASE("an actor's error, and an item that makes no sense, fail a request alone", "[serve]") {
  ChatServer chat;
  must(chat.loaded);
  const auto held = chat.server.table.generate(say("hold 1", "h"));
  CHECK(text_of(next_of(*held)) == "h0");
  const auto refused = next_of(*chat.server.table.generate(say("refuse")));
  CHECK(code_of(refused) == Errc::invalid_argument);
  CHECK(says(refused, "nobody says that here"));
  const auto bad = next_of(*chat.server.table.generate(say("bad")));
  CHECK(code_of(bad) == Errc::task_failed);
  CHECK(says(bad, "in the shape [2], and has described [1]"));
  // The stream that went wrong is ended, too.
  chat.until([] { return seen().stopped == 1; });
  seen().go_on = true;
  CHECK(text_of(next_of(*held)) == "END");
}

TEST_CASE("one replica runs as many requests as it may, and a client that goes makes room", "[serve]") {
  ChatServer chat{"max-running=2"};
  must(chat.loaded);
  auto& table = chat.server.table;
  const auto first = table.generate(say("hold 1", "a"));
  const auto second = table.generate(say("hold 1", "b"));
  const auto third = table.generate(say("1", "c"));
  CHECK(text_of(next_of(*first)) == "a0");
  CHECK(text_of(next_of(*second)) == "b0");
  CHECK(chat.metrics_have("gpuactors_serve_running{model=\"chat\",version=\"1\"} 2"));
  CHECK(chat.metrics_have("nv_inference_pending_request_count{model=\"chat\",version=\"1\"} 1"));
  CHECK(seen().begun == 2);
  first->cancel();
  chat.until([] { return seen().stopped == 1; });
  CHECK(read_all(*third) == std::vector<std::string>{"c0", "END"});
  CHECK(code_of(next_of(*first)) == Errc::cancelled);
  seen().go_on = true;
  CHECK(text_of(next_of(*second)) == "END");
  CHECK(seen().stopped == 1);
}

TEST_CASE("a timeout is seen by the actor, and by the client", "[serve]") {
  ChatServer chat;
  must(chat.loaded);
  auto request = say("hold 1", "a");
  request.timeout = 50ms;
  const auto replies = chat.server.table.generate(std::move(request));
  CHECK(text_of(next_of(*replies)) == "a0");
  CHECK(code_of(next_of(*replies)) == Errc::deadline_exceeded);
  chat.until([] { return seen().stopped == 1; });
}

TEST_CASE("a replica that dies takes along what it has begun to answer, and nothing else", "[serve]") {
  ChatServer chat{"max-running=3"};
  must(chat.loaded);
  auto& table = chat.server.table;
  const auto begun = table.generate(say("hold 1", "a"));
  CHECK(text_of(next_of(*begun)) == "a0");
  const auto silent = table.generate(say("hold 0", "b"));
  chat.until([] { return seen().begun == 2; });
  const auto crash = table.generate(say("crash 1", "c"));
  CHECK(text_of(next_of(*crash)) == "c0");
  const auto lost = next_of(*crash);
  CHECK(code_of(lost) == Errc::unavailable);
  CHECK(says(lost, "the replica was lost after 1 items of the answer"));
  CHECK(code_of(next_of(*begun)) == Errc::unavailable);
  // It begins anew in the replica that takes the place of the first.
  seen().go_on = true;
  CHECK(text_of(next_of(*silent)) == "END");
  CHECK(seen().begun == 4);
  CHECK(chat.metrics_have("gpuactors_serve_replicas_lost{model=\"chat\",version=\"1\"} 1"));
}

TEST_CASE("a request that kills its replicas before its first item fails, and the model goes on", "[serve]") {
  ChatServer chat{"replicas=2"};
  must(chat.loaded);
  const auto failed = next_of(*chat.server.table.generate(say("crash 0")));
  CHECK(code_of(failed) == Errc::worker_died);
  CHECK(says(failed, "3 replicas were lost with this request"));
  CHECK(read_all(*chat.server.table.generate(say("1", "a"))) == std::vector<std::string>{"a0", "END"});
}

TEST_CASE("a replica that generates counts as lost when it does not answer any more, however long that takes else",
          "[serve]") {
  TableOptions options;
  options.longest_silence = 2s;
  ChatServer chat{"", std::move(options)};
  must(chat.loaded);
  auto& table = chat.server.table;
  // Nothing comes for longer than that, but the actor answers.
  const auto quiet = table.generate(say("hold 1", "a"));
  CHECK(text_of(next_of(*quiet)) == "a0");
  const auto before = seen().described.load();
  chat.until([&] { return seen().described >= before + 2; });
  CHECK(chat.metrics_have("gpuactors_serve_replicas_lost{model=\"chat\",version=\"1\"} 0"));
  const auto stuck = table.generate(say("stick 1", "b"));
  CHECK(text_of(next_of(*stuck)) == "b0");
  const auto lost = next_of(*stuck);
  seen().go_on = true;
  CHECK(code_of(lost) == Errc::unavailable);
  CHECK(says(lost, "the replica was lost after 1 items of the answer"));
  CHECK(code_of(next_of(*quiet)) == Errc::unavailable);
  CHECK(read_all(*table.generate(say("1", "c"))) == std::vector<std::string>{"c0", "END"});
}

TEST_CASE("a replica whose description is an error for once goes on with its texts", "[serve]") {
  ChatServer chat;
  must(chat.loaded);
  const auto running = chat.server.table.generate(say("mumble 1", "a"));
  CHECK(text_of(next_of(*running)) == "a0");
  const auto before = seen().described.load();
  chat.until([&] { return seen().described >= before + 2; });
  CHECK(chat.metrics_have("gpuactors_serve_replicas_lost{model=\"chat\",version=\"1\"} 0"));
  seen().go_on = true;
  CHECK(text_of(next_of(*running)) == "END");
}

TEST_CASE("a new version takes new requests, and the old one's streams come to their end", "[serve]") {
  TableOptions options;
  options.drain = 20s;
  ChatServer chat{"", std::move(options)};
  must(chat.loaded);
  auto& table = chat.server.table;
  const auto old = table.generate(say("hold 1", "old"));
  CHECK(text_of(next_of(*old)) == "old0");
  std::thread loading{[&] { must(table.load("chat", {})); }};
  chat.until([&] { return must(table.describe("chat", "")).versions.front() == "2"; });
  const auto replies = table.generate(say("1", "new"));
  const auto reply = must(next_of(*replies));
  REQUIRE(reply);
  CHECK(reply->version == "2");
  seen().go_on = true;
  CHECK(text_of(next_of(*old)) == "END");
  loading.join();
  CHECK(seen().stopped == 0);
}

TEST_CASE("the end of a server ends streams that do not end in time", "[serve]") {
  ChatServer chat;
  must(chat.loaded);
  const auto replies = chat.server.table.generate(say("hold 1", "a"));
  CHECK(text_of(next_of(*replies)) == "a0");
  auto last = std::async(std::launch::async, [&] { return next_of(*replies); });
  chat.server.table.close(Clock::now() + 50ms);
  CHECK(code_of(last.get()) == Errc::unavailable);
  CHECK(code_of(next_of(*chat.server.table.generate(say("1")))) == Errc::unavailable);
}

TEST_CASE("requests that wait bring a generative model one more replica", "[serve]") {
  ChatServer chat{"max-running=1,min-replicas=1,max-replicas=2"};
  must(chat.loaded);
  const auto first = chat.server.table.generate(say("hold 1", "a"));
  const auto second = chat.server.table.generate(say("hold 1", "b"));
  CHECK(text_of(next_of(*first)) == "a0");
  CHECK(text_of(next_of(*second)) == "b0");
  CHECK(must(chat.server.table.describe("chat", "")).replicas == 2);
  seen().go_on = true;
  CHECK(text_of(next_of(*second)) == "END");
}

TEST_CASE("an actor type that cannot be served as a generative model is refused with what is missing", "[serve]") {
  check_no_chat("test/undecided", "", "it has both methods infer and generate, and a model has one of them");
  check_no_chat("test/generates-one", "", "a method generate: gpuactors.v1.GenerateRequest -> stream of");
  check_no_chat("test/chatter", ",set=rows=1", "is of the datatype \"TEXT\"");
}
