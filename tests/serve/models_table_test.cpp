// Models that serve on host devices of a cluster in this process: answers, versions, states, numbers.
#include "models_fixture.hpp"

#include <filesystem>
#include <fstream>

using namespace std::chrono_literals;
using namespace serve;
using namespace serve::test;
using gpuactors::Clock;
using gpuactors::Errc;
using gpuactors::never;

namespace {

std::string state_of(const ModelTable& table, const std::string& model) {
  std::string result;
  for (const auto& entry : table.repository())
    if (entry.name == model)
      result += (result.empty() ? "" : " ") + entry.version + ":" + entry.state;
  return result;
}

} // namespace

TEST_CASE("a model answers what its network infers, for every size of a request", "[serve]") {
  Server server;
  server.serve("replicas=2,max-batch=8");
  for (std::int64_t rows = 1; rows <= 8; ++rows) {
    const auto x = some_rows(rows, static_cast<std::uint64_t>(rows));
    const auto reply = must(ask(server.table, request_for("digits", x)));
    CHECK(reply.model == "digits");
    CHECK(reply.version == "1");
    CHECK(reply.id == "a");
    CHECK(reply.outputs.at(0).name == "y");
    CHECK(reply.outputs.at(0).shape == std::vector<std::int64_t>{rows, outputs});
    const auto y = expected(server.file(), x);
    const auto values = values_of(reply);
    REQUIRE(values.size() == y.size());
    for (std::size_t i = 0; i < y.size(); ++i)
      CHECK(values[i] == Approx(y[i]).margin(1e-5));
  }
  CHECK(code_of(ask(server.table, request_for("digits", some_rows(9, 1)))) == Errc::invalid_argument);
}

TEST_CASE("a name that no model can have is not looked for among those that there are", "[serve]") {
  Server server;
  server.serve();
  const std::string long_name(std::size_t{1} << 20, 'a');
  for (const auto& refused : {server.table.load(long_name, {}), server.table.unload(long_name)}) {
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code() == Errc::not_found);
    CHECK(refused.error().message().size() < 512);
  }
  const auto x = some_rows(1, 1);
  auto request = request_for("digits", x);
  request.version = long_name;
  CHECK(to_string(ask(server.table, std::move(request)).error()).size() < 512);
  request = request_for("digits", x);
  request.inputs.front().name = long_name;
  CHECK(to_string(ask(server.table, std::move(request)).error()).size() < 512);
  request = request_for("digits", x);
  request.outputs.push_back(long_name);
  CHECK(to_string(ask(server.table, std::move(request)).error()).size() < 512);
}

TEST_CASE("requests that come together share batches", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=8");
  const ClosedGate closed;
  std::vector<Asked> asked;
  asked.push_back(ask_async(server.table, request_for("digits", some_rows(1, 0))));
  gate().await(1);
  for (std::uint64_t i = 1; i <= 8; ++i)
    asked.push_back(ask_async(server.table, request_for("digits", some_rows(1, i))));
  gate().open();
  for (std::uint64_t i = 0; i <= 8; ++i)
    CHECK(values_of(must(asked[i].reply.get()))[0] == some_rows(1, i)[0]);
  const auto statistics = must(server.table.statistics("digits", "")).at(0);
  CHECK(statistics.execution_count == 2);
  CHECK(statistics.inference_count == 9);
  CHECK(statistics.success.count == 9);
  CHECK(statistics.last_inference_ms > 0);
}

TEST_CASE("a timeout fires when it is due, although a batch runs", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=1,timeout=60000");
  const ClosedGate closed;
  auto runs = ask_async(server.table, request_for("digits", some_rows(1, 1)));
  gate().await(1);
  auto request = request_for("digits", some_rows(1, 2));
  request.timeout = 500ms;
  const auto start = Clock::now();
  CHECK(code_of(ask(server.table, std::move(request))) == Errc::deadline_exceeded);
  CHECK(Clock::now() - start >= 500ms);
  CHECK_FALSE(runs.reply.ready());
  gate().open();
  must(runs.reply.get());
}

TEST_CASE("a call that ends earlier shortens the timeout of its model, and one that ends later does not", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=1,timeout=1000");
  const ClosedGate closed;
  auto running = request_for("digits", some_rows(1, 1));
  running.timeout = 1min;
  auto runs = ask_async(server.table, std::move(running));
  gate().await(1);
  auto patient = request_for("digits", some_rows(1, 2));
  patient.call_deadline = Clock::now() + 1min;
  CHECK(code_of(ask(server.table, std::move(patient))) == Errc::deadline_exceeded);
  auto hasty = request_for("digits", some_rows(1, 3));
  hasty.timeout = 1min;
  hasty.call_deadline = Clock::now() + 500ms; // more than a batch takes on a busy machine, or it would be refused
  CHECK(code_of(ask(server.table, std::move(hasty))) == Errc::deadline_exceeded);
  gate().open();
  must(runs.reply.get());
}

TEST_CASE("the time of a request begins when it had arrived, and not when it was read", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=1");
  const ClosedGate closed;
  auto runs = ask_async(server.table, request_for("digits", some_rows(1, 1)));
  gate().await(1);
  auto late = request_for("digits", some_rows(1, 2));
  late.timeout = 1min;
  late.arrived = Clock::now() - 2min;
  CHECK(code_of(ask(server.table, std::move(late))) == Errc::deadline_exceeded);
  gate().open();
  must(runs.reply.get());
}

TEST_CASE("urgent requests overtake others, which keep their order", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=1");
  const ClosedGate closed;
  std::mutex mutex;
  std::vector<std::string> order;
  std::vector<Asked> asked;
  const auto send = [&](const std::string& id, std::uint64_t priority) {
    auto request = request_for("digits", some_rows(1, 1));
    request.id = id;
    request.priority = priority;
    const auto promise = std::make_shared<gpuactors::Promise<InferReply>>();
    asked.push_back({nullptr, promise->future()});
    server.table.infer(std::move(request), [&, promise](gpuactors::Result<InferReply> reply) {
      {
        const std::lock_guard lock{mutex};
        order.push_back(reply ? reply->id : to_string(reply.error()));
      }
      promise->set(std::move(reply));
    });
  };
  send("running", 9);
  gate().await(1);
  send("third", 3);
  send("default", 0);
  send("fourth", 3);
  send("first", 1);
  gate().open();
  for (auto& one : asked)
    must(one.reply.get());
  CHECK(order == std::vector<std::string>{"running", "first", "default", "third", "fourth"});
}

TEST_CASE("clients that go are answered with cancelled", "[serve]") {
  Server server;
  server.serve(gated_key + "max-batch=1");
  const ClosedGate closed;
  auto runs = ask_async(server.table, request_for("digits", some_rows(1, 1)));
  gate().await(1);
  auto waits = ask_async(server.table, request_for("digits", some_rows(1, 2)));
  waits.ticket->cancel();
  waits.ticket->cancel();
  CHECK(code_of(waits.reply.get()) == Errc::cancelled);
  gate().open();
  must(runs.reply.get());
  runs.ticket->cancel();
}

TEST_CASE("models and versions that there are not are named with those that there are", "[serve]") {
  Server server;
  server.serve();
  const auto wrong = ask(server.table, request_for("digit", some_rows(1, 1)));
  CHECK(code_of(wrong) == Errc::not_found);
  CHECK(says(wrong, "there is no model \"digit\"; did you mean \"digits\"?"));
  auto request = request_for("digits", some_rows(1, 1));
  request.version = "7";
  const auto version = ask(server.table, std::move(request));
  CHECK(code_of(version) == Errc::not_found);
  CHECK(says(version, "model digits has no version 7 that serves: version 1 does"));
  CHECK(code_of(server.table.describe("other", "")) == Errc::not_found);
  CHECK(code_of(server.table.model_ready("digits", "2")) == Errc::not_found);
  CHECK(code_of(server.table.statistics("other", "")) == Errc::not_found);
  CHECK(code_of(server.table.load("other", {})) == Errc::not_found);
  CHECK(code_of(server.table.unload("other")) == Errc::not_found);
}

TEST_CASE("a model says what it is", "[serve]") {
  Server server;
  server.serve("replicas=2,gpus=0.5,max-batch=16,max-queue=7,timeout=250");
  const auto model = must(server.table.describe("digits", ""));
  CHECK(model.versions == std::vector<std::string>{"1"});
  CHECK(model.platform == "gpuactors_nn");
  CHECK(model.inputs.at(0).name == "x");
  CHECK(model.inputs.at(0).shape == std::vector<std::int64_t>{-1, inputs});
  CHECK(model.outputs.at(0).name == "y");
  CHECK(model.outputs.at(0).shape == std::vector<std::int64_t>{-1, outputs});
  CHECK(model.max_batch == 16);
  CHECK(model.max_queue == 7);
  CHECK(model.default_timeout == gpuactors::Duration{250ms});
  CHECK(model.replicas == 2);
  CHECK(model.gpus == 0.5);
  CHECK(server.table.ready());
  CHECK(must(server.table.model_ready("digits", "1")));
}

TEST_CASE("a model that is known but not loaded is unavailable, not unknown", "[serve]") {
  Server server;
  must(server.table.add(must(parse_model("later=" + server.file().string(), {}))));
  CHECK(code_of(server.table.add(must(parse_model("later=x", {})))) == Errc::already_exists);
  CHECK_FALSE(server.table.ready());
  CHECK_FALSE(must(server.table.model_ready("later", "")));
  CHECK(code_of(ask(server.table, request_for("later", some_rows(1, 1)))) == Errc::unavailable);
  CHECK(state_of(server.table, "later") == ":UNAVAILABLE");
  must(server.table.load("later", {}));
  CHECK(server.table.ready());
  CHECK(state_of(server.table, "later") == "1:READY");
  must(server.table.unload("later"));
  CHECK(server.table.ready());
  const auto gone = ask(server.table, request_for("later", some_rows(1, 1)));
  CHECK(code_of(gone) == Errc::unavailable);
  CHECK(says(gone, "model later does not serve: it was unloaded"));
  must(server.table.load("later", {}));
  CHECK(must(ask(server.table, request_for("later", some_rows(1, 1)))).version == "2");
}

TEST_CASE("a model that becomes another one has a new version, or keeps the old one until it can", "[serve]") {
  Notices notices;
  Server server{{.notice = notices.taker()}};
  server.serve("timeout=1000");
  auto config = must(parse_model("digits=" + server.file().string() + ",timeout=2000", {}));
  CHECK_FALSE(server.table.is_missing("digits"));
  server.table.set({config});
  CHECK(server.table.is_missing("digits"));
  CHECK(must(server.table.describe("digits", "")).default_timeout == gpuactors::Duration{1s});
  must(server.table.settle("digits"));
  CHECK(must(server.table.describe("digits", "")).default_timeout == gpuactors::Duration{2s});
  CHECK(notices.take() == std::vector<std::string>{"model digits: version 2 serves in the place of version 1"});
  // It is as it should be: nothing to do.
  server.table.set({config});
  must(server.table.settle("digits"));
  CHECK(state_of(server.table, "digits") == "2:READY");
  config.file = (server.folder / "later").string();
  server.table.set({config});
  CHECK(code_of(server.table.settle("digits")) == Errc::not_found);
  CHECK(server.table.is_missing("digits"));
  CHECK(state_of(server.table, "digits") == "2:READY");
  std::filesystem::rename(server.file(), config.file);
  must(server.table.settle("digits"));
  CHECK_FALSE(server.table.is_missing("digits"));
  CHECK(state_of(server.table, "digits") == "4:READY");
  CHECK(notices.take().size() == 1);
  // Nobody wants what a client has unloaded, until it is said anew.
  must(server.table.unload("digits"));
  CHECK_FALSE(server.table.is_missing("digits"));
  server.table.set({config});
  CHECK(server.table.is_missing("digits"));
}

TEST_CASE("a version that serves says why the next one does not come, for as long as that is so", "[serve]") {
  Server server;
  server.serve("timeout=1000");
  const auto reason = [&] {
    const auto entries = server.table.repository();
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].state == "READY");
    return entries[0].reason;
  };
  const auto served = must(parse_model("digits=" + server.file().string() + ",timeout=1000", {}));
  auto next = served;
  next.file = (server.folder / "later").string();
  server.table.set({next});
  CHECK(reason().empty()); // not tried yet
  CHECK_FALSE(server.table.settle("digits"));
  CHECK(reason().find("the next version could not be loaded, and is tried again: ") == 0);
  CHECK(reason().find("later") != std::string::npos);
  server.table.set({next});
  CHECK_FALSE(reason().empty());
  // The entry is what serves, and then what failed before, of which nothing is known any more.
  server.table.set({served});
  CHECK(reason().empty());
  server.table.set({next});
  CHECK(reason().empty());
  CHECK_FALSE(server.table.settle("digits"));
  CHECK_FALSE(reason().empty());
  std::filesystem::copy_file(server.file(), next.file);
  must(server.table.settle("digits"));
  CHECK(reason().empty());
  // What a client asks for is not tried again.
  write_diverged_checkpoint(next.file);
  CHECK_FALSE(server.table.load("digits", {}));
  CHECK(reason().empty());
}

TEST_CASE("a model that is removed is no longer known", "[serve]") {
  Server server;
  server.serve();
  must(server.table.remove("digits"));
  CHECK(server.table.repository().empty());
  CHECK(server.table.ready());
  CHECK(code_of(ask(server.table, request_for("digits", some_rows(1, 1)))) == Errc::not_found);
  CHECK(code_of(server.table.remove("digits")) == Errc::not_found);
  // Neither is one that was never loaded, and one that comes again begins anew.
  server.table.set({must(parse_model("digits=" + server.file().string(), {}))});
  must(server.table.remove("digits"));
  server.table.set({must(parse_model("digits=" + server.file().string(), {}))});
  must(server.table.settle("digits"));
  CHECK(state_of(server.table, "digits") == "1:READY");
}

TEST_CASE("a model that a client has loaded may be named later, and stays then", "[serve]") {
  TableOptions options;
  Server server;
  options.load_paths = server.folder.path();
  ModelTable table{server.cluster, options};
  must(table.load("digits", {{"path", "checkpoint.safetensors"}}));
  const auto path = std::filesystem::canonical(server.file()).string();
  table.set({must(parse_model("digits=" + path, {}))});
  CHECK_FALSE(table.is_missing("digits"));
  table.set({must(parse_model("digits=" + path + ",max-batch=4", {}))});
  must(table.settle("digits"));
  CHECK(state_of(table, "digits") == "2:READY");
  must(table.unload("digits"));
  CHECK(state_of(table, "digits") == ":UNAVAILABLE");
}

TEST_CASE("a file that is no checkpoint, or is not there, is named; what served goes on", "[serve]") {
  Server server;
  server.serve();
  std::ofstream{server.file()} << "not a checkpoint";
  const auto broken = server.table.load("digits", {});
  REQUIRE_FALSE(broken);
  CHECK(broken.error().code() == Errc::invalid_argument);
  CHECK(broken.error().message().find(server.file().string()) != std::string::npos);
  CHECK(broken.error().message().find("/proc") == std::string::npos);
  must(ask(server.table, request_for("digits", some_rows(1, 1))));
  std::filesystem::remove(server.file());
  CHECK(server.table.load("digits", {}).error().code() == Errc::not_found);
  CHECK(state_of(server.table, "digits") == "1:READY");
}

TEST_CASE("a model that fits on no device says why", "[serve]") {
  Server server;
  const auto text = "digits=" + server.file().string() + ",memory=1GiB";
  must(server.table.add(must(parse_model(text, {}))));
  const auto loaded = server.table.load("digits", {});
  REQUIRE_FALSE(loaded);
  CHECK(loaded.error().code() == Errc::infeasible);
  CHECK_FALSE(server.table.ready());
}

TEST_CASE("files are loaded by name only from the folder that is allowed", "[serve]") {
  Server server;
  const auto refused = server.table.load("new", {{"path", server.file().string()}});
  CHECK(refused.error().code() == Errc::invalid_argument);
  CHECK(refused.error().message().find("--allow-load-paths") != std::string::npos);
  CHECK(server.table.load("new", {{"config", "{}"}}).error().code() == Errc::invalid_argument);

  TableOptions options;
  options.load_paths = server.folder / "allowed";
  std::filesystem::create_directory(options.load_paths);
  write_checkpoint(options.load_paths / "a.safetensors", 5);
  std::filesystem::create_symlink(server.file(), options.load_paths / "way-out.safetensors");
  ModelTable table{server.cluster, options};
  for (const auto& path : {"../checkpoint.safetensors", "way-out.safetensors", "/etc/passwd", "missing", ".."}) {
    INFO(path);
    CHECK(table.load("new", {{"path", path}}).error().code() == Errc::invalid_argument);
  }
  CHECK(table.repository().empty());
  must(table.load("new", {{"path", "a.safetensors"}}));
  CHECK(must(ask(table, request_for("new", some_rows(1, 1)))).version == "1");
  must(table.load("new", {{"path", (options.load_paths / "a.safetensors").string()}}));
  CHECK(state_of(table, "new") == "2:READY");
  must(table.load("new", {}));
  CHECK(state_of(table, "new") == "3:READY");
  must(table.unload("new"));
  CHECK(table.repository().empty());
  CHECK(code_of(ask(table, request_for("new", some_rows(1, 1)))) == Errc::not_found);
  CHECK(table.load("a=b", {{"path", "a.safetensors"}}).error().code() == Errc::invalid_argument);
  std::ofstream{options.load_paths / "bad"} << "no checkpoint";
  CHECK_FALSE(table.load("other", {{"path", "bad"}}));
  CHECK(state_of(table, "other").empty());
}

TEST_CASE("a table that is closed answers what it accepted and refuses the rest", "[serve]") {
  Server server;
  server.serve("replicas=2");
  std::vector<Asked> asked;
  for (std::uint64_t i = 0; i < 50; ++i)
    asked.push_back(ask_async(server.table, request_for("digits", some_rows(1, i))));
  server.table.close(never);
  for (auto& one : asked)
    must(one.reply.get());
  CHECK(code_of(ask(server.table, request_for("digits", some_rows(1, 1)))) == Errc::unavailable);
  CHECK_FALSE(server.table.ready());
  CHECK(server.table.load("digits", {}).error().code() == Errc::unavailable);
  const auto state = must(server.cluster.state());
  CHECK(state.leases_size() == 0);
}

TEST_CASE("the numbers of a server are there under the names that dashboards know", "[serve]") {
  Server server;
  server.serve("replicas=2,max-batch=4");
  for (std::uint64_t i = 0; i < 5; ++i)
    must(ask(server.table, request_for("digits", some_rows(3, i))));
  const auto text = server.table.metrics();
  const auto has = [&text](const std::string& line) {
    INFO(text);
    CHECK(text.find(line) != std::string::npos);
  };
  has("# TYPE nv_inference_request_success counter\nnv_inference_request_success{model=\"digits\",version=\"1\"} 5\n");
  has("nv_inference_request_failure{model=\"digits\",version=\"1\",reason=\"REJECTED\"} 0\n");
  has("nv_inference_count{model=\"digits\",version=\"1\"} 15\n");
  has("nv_inference_exec_count{model=\"digits\",version=\"1\"} 5\n");
  has("nv_inference_pending_request_count{model=\"digits\",version=\"1\"} 0\n");
  for (const auto* part : {"request", "queue", "compute_input", "compute_infer", "compute_output"})
    has(std::string{"nv_inference_"} + part + "_duration_us{model=\"digits\",version=\"1\"} ");
  for (const auto* part : {"request", "queue", "infer"})
    has(std::string{"gpuactors_serve_"} + part + "_seconds_count{model=\"digits\",version=\"1\"} 5\n");
  has("gpuactors_serve_batch_size_bucket{model=\"digits\",version=\"1\",le=\"2\"} 0\n");
  has("gpuactors_serve_batch_size_bucket{model=\"digits\",version=\"1\",le=\"4\"} 5\n");
  has("gpuactors_serve_batch_size_bucket{model=\"digits\",version=\"1\",le=\"+Inf\"} 5\n");
  has("gpuactors_serve_batch_size_sum{model=\"digits\",version=\"1\"} 15\n");
  has("gpuactors_serve_replicas{model=\"digits\",version=\"1\"} 2\n");
  has("gpuactors_serve_granted_share{model=\"digits\",version=\"1\",replica=\"1\"} 0.25\n");
  has("gpuactors_serve_memory_used_bytes{model=\"digits\",version=\"1\",replica=\"2\"} ");
}
