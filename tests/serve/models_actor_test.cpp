// Models of actor types that somebody else wrote: what is served, and what is refused with the reason.
#include "models_fixture.hpp"

#include <support/eventually.hpp>

#include <atomic>
#include <cstring>
#include <fstream>

using namespace serve;
using namespace serve::test;
using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;
using gpuactors::test::eventually;

namespace {

/// Holds the next constructors that come here, so many of them, during a test.
class HeldConstructors {
public:
  explicit HeldConstructors(int count) {
    to_hold_ = count;
  }
  ~HeldConstructors() {
    to_hold_ = 0;
  }

  static void pass() {
    if (to_hold_-- > 0)
      gate().pass();
  }

private:
  static inline std::atomic<int> to_hold_{0};
  const ClosedGate closed_;
};

/// Adds two columns and counts: two inputs, two outputs, one of them a scalar a row. Its settings choose its faults.
class Adder : public gpuactors::Actor {
public:
  Adder(gpuactors::Init init, const wire::ReplicaConfig& config) : Actor(std::move(init)), config_(config) {
    if (fault() == "constructor")
      throw std::runtime_error{"there is no such dictionary"};
    HeldConstructors::pass();
  }

  wire::ReplicaDescription describe(const Empty& /*ask*/) {
    wire::ReplicaDescription description;
    const auto fill = [](wire::ReplicaTensor& tensor, const char* name, const char* datatype) {
      tensor.set_name(name);
      tensor.set_datatype(datatype);
    };
    fill(*description.add_inputs(), "left", fault() == "datatype" ? "FLOAT" : "INT32");
    fill(*description.add_inputs(), fault() == "twice" ? "left" : "right", "INT32");
    description.mutable_inputs(1)->add_row_shape(fault() == "shape" ? 0 : 2);
    fill(*description.add_outputs(), "sum", "INT32");
    description.mutable_outputs(0)->add_row_shape(2);
    fill(*description.add_outputs(), "version", "UINT8");
    if (fault() == "rows")
      description.set_max_rows(-1);
    else if (config_.settings().contains("rows"))
      description.set_max_rows(std::stoll(config_.settings().at("rows")));
    if (fault() == "changes")
      description.set_max_rows(++asked_);
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    if (fault() == "zeros")
      return gpuactors::fail(Errc::invalid_argument, "a zero is no word");
    const auto rows = static_cast<std::size_t>(batch.rows());
    if (rows > static_cast<std::size_t>(config_.max_rows()))
      return gpuactors::fail(Errc::internal, "more rows than were announced");
    std::vector<std::int32_t> left(rows);
    std::vector<std::int32_t> right(rows * 2);
    std::memcpy(left.data(), batch.inputs(0).data(), batch.inputs(0).size());
    std::memcpy(right.data(), batch.inputs(1).data(), batch.inputs(1).size());
    for (std::size_t i = 0; i < right.size(); ++i)
      right[i] += left[i / 2];
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(reinterpret_cast<const char*>(right.data()), right.size() * sizeof(std::int32_t));
    const auto version = static_cast<char>(std::stoi(config_.version()));
    reply.add_outputs()->assign(fault() == "size" ? rows + 1 : rows, version);
    if (fault() == "outputs")
      reply.mutable_outputs()->RemoveLast();
    return reply;
  }

private:
  [[nodiscard]] std::string fault() const {
    const auto found = config_.settings().find("fault");
    return found == config_.settings().end() ? "" : found->second;
  }

  wire::ReplicaConfig config_;
  std::int64_t asked_ = 0;
};

GPUACTORS_ACTOR("test/adder", Adder, wire::ReplicaConfig)
    .method("describe", &Adder::describe)
    .method("infer", &Adder::infer);

/// Doubles a number of FP16 to one of BF16.
class Doubler : public gpuactors::Actor {
public:
  Doubler(gpuactors::Init init, const wire::ReplicaConfig& /*config*/) : Actor(std::move(init)) {
    // nop
  }

  wire::ReplicaDescription describe(const Empty& /*ask*/) {
    wire::ReplicaDescription description;
    auto& input = *description.add_inputs();
    input.set_name("x");
    input.set_datatype("FP16");
    auto& output = *description.add_outputs();
    output.set_name("y");
    output.set_datatype("BF16");
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    std::vector<gpuactors::Float16> x(static_cast<std::size_t>(batch.rows()));
    std::memcpy(x.data(), batch.inputs(0).data(), batch.inputs(0).size());
    std::vector<gpuactors::BFloat16> y;
    for (const auto value : x)
      y.emplace_back(2 * value);
    wire::ReplicaReply reply;
    reply.add_outputs()->assign(reinterpret_cast<const char*>(y.data()), y.size() * sizeof(y[0]));
    return reply;
  }
};

GPUACTORS_ACTOR("test/doubler", Doubler, wire::ReplicaConfig)
    .method("describe", &Doubler::describe)
    .method("infer", &Doubler::infer);

/// Types that lack something.
class Halfway : public gpuactors::Actor {
public:
  Halfway(gpuactors::Init init, const wire::ReplicaConfig& /*config*/) : Actor(std::move(init)) {
    // nop
  }

  wire::ReplicaDescription describe(const Empty& /*ask*/) {
    return digits_description();
  }

  Empty infer(const wire::ReplicaBatch& /*batch*/) {
    return {};
  }
};

GPUACTORS_ACTOR("test/only-describes", Halfway, wire::ReplicaConfig).method("describe", &Halfway::describe);
GPUACTORS_ACTOR("test/mute", Halfway, wire::ReplicaConfig)
    .method("describe", &Halfway::describe)
    .method("infer", &Halfway::infer);

class Strange : public gpuactors::Actor {
public:
  Strange(gpuactors::Init init, const Empty& /*config*/) : Actor(std::move(init)) {
    // nop
  }
};

GPUACTORS_ACTOR("test/strange", Strange, Empty);

NamedTensor integers(const std::string& name, std::vector<std::int64_t> shape, std::vector<std::int32_t> values) {
  return {name, DataType::int32, std::move(shape), Bytes::of(std::move(values))};
}

InferRequest sum_of(std::vector<std::int32_t> left, std::vector<std::int32_t> right) {
  InferRequest request;
  request.model = "sums";
  const auto rows = static_cast<std::int64_t>(left.size());
  request.inputs.push_back(integers("right", {rows, 2}, std::move(right)));
  request.inputs.push_back(integers("left", {rows}, std::move(left)));
  return request;
}

std::vector<std::int32_t> integers_of(const NamedTensor& tensor) {
  std::vector<std::int32_t> values(tensor.data.size() / sizeof(std::int32_t));
  std::memcpy(values.data(), tensor.data.view().data(), tensor.data.size());
  return values;
}

/// Adds a model "sums" with these keys and loads it.
Result<void> load_sums(Server& server, const std::string& keys) {
  must(server.table.add(must(parse_model("sums," + keys, {}))));
  return server.table.load("sums", {});
}

void check_refused(const std::string& keys, Errc code, const std::string& words) {
  INFO(keys);
  Server server;
  const auto loaded = load_sums(server, keys);
  CHECK(code_of(loaded) == code);
  CHECK(says(loaded, words));
  // What was started is ended.
  CHECK(must(server.cluster.state()).leases_size() == 0);
}

} // namespace

TEST_CASE("an actor type with several inputs and outputs is served as it describes itself", "[serve]") {
  Server server;
  must(load_sums(server, "actor=test/adder,replicas=2,max-batch=8"));
  const auto model = must(server.table.describe("sums", ""));
  CHECK(model.platform == "gpuactors_actor");
  REQUIRE(model.inputs.size() == 2);
  CHECK(model.inputs[0].name == "left");
  CHECK(model.inputs[0].type == DataType::int32);
  CHECK(model.inputs[0].shape == std::vector<std::int64_t>{-1});
  CHECK(model.inputs[1].shape == std::vector<std::int64_t>{-1, 2});
  REQUIRE(model.outputs.size() == 2);
  CHECK(model.outputs[1].type == DataType::uint8);
  CHECK(model.max_batch == 8);
  for (int round = 0; round < 8; ++round) {
    const auto reply = must(ask(server.table, sum_of({1, 10}, {1, 2, 3, 4})));
    REQUIRE(reply.outputs.size() == 2);
    CHECK(reply.outputs[0].shape == std::vector<std::int64_t>{2, 2});
    CHECK(integers_of(reply.outputs[0]) == std::vector<std::int32_t>{2, 3, 13, 14});
    CHECK(reply.outputs[1].shape == std::vector<std::int64_t>{2});
  }
  auto request = sum_of({5}, {1, 2});
  request.outputs = {"version"};
  const auto only = must(ask(server.table, std::move(request)));
  REQUIRE(only.outputs.size() == 1);
  CHECK(only.outputs[0].name == "version");
  CHECK(only.outputs[0].data.view()[0] == std::byte{1});
  must(server.table.load("sums", {}));
  CHECK(must(ask(server.table, sum_of({5}, {1, 2}))).outputs[1].data.view()[0] == std::byte{2});
}

TEST_CASE("an actor type with numbers of 16 bits is served", "[serve]") {
  using gpuactors::BFloat16;
  using gpuactors::Float16;
  Server server;
  must(load_sums(server, "actor=test/doubler,max-batch=8"));
  InferRequest request;
  request.model = "sums";
  const std::vector<Float16> x{Float16{0.5F}, Float16{-3}, Float16{65504}};
  request.inputs.push_back({"x", DataType::fp16, {3}, Bytes::of(x)});
  const auto reply = must(ask(server.table, std::move(request)));
  REQUIRE(reply.outputs.size() == 1);
  CHECK(reply.outputs[0].type == DataType::bf16);
  std::vector<BFloat16> y(3);
  REQUIRE(reply.outputs[0].data.size() == sizeof(y[0]) * y.size());
  std::memcpy(y.data(), reply.outputs[0].data.view().data(), reply.outputs[0].data.size());
  CHECK(y == std::vector<BFloat16>{BFloat16{1}, BFloat16{-6}, BFloat16{131072}});
}

TEST_CASE("a request that does not fit an actor's inputs is refused with what they are", "[serve]") {
  Server server;
  must(load_sums(server, "actor=test/adder,max-batch=8"));
  const auto refused = [&server](InferRequest request, const std::string& words) {
    const auto reply = ask(server.table, std::move(request));
    CHECK(code_of(reply) == Errc::invalid_argument);
    CHECK(says(reply, words));
  };
  auto request = sum_of({1}, {1, 2});
  request.inputs.pop_back();
  refused(request, "model sums has 2 inputs, \"left\" and \"right\", and the request has 1");
  request = sum_of({1}, {1, 2});
  request.inputs[0].name = "middle";
  refused(request, "model sums has no input \"middle\": its inputs are \"left\" and \"right\"");
  request.inputs[0] = request.inputs[1];
  refused(request, "model sums takes \"right\", which the request lacks");
  request = sum_of({1}, {1, 2});
  request.inputs[1].shape = {1, 1};
  refused(request, "takes \"left\" in the shape [rows], not [1,1]");
  request = sum_of({1, 2}, {1, 2, 3, 4});
  request.inputs[0] = integers("right", {1, 2}, {1, 2});
  refused(request, "as many rows of each input, not 2 of \"left\" and 1 of \"right\"");
  request = sum_of({1}, {1, 2});
  request.outputs = {"sums"};
  refused(request, "has no output \"sums\": its outputs are \"sum\" and \"version\"");
}

TEST_CASE("an actor that takes fewer rows than the model's batches gets no larger ones", "[serve]") {
  Server server;
  must(load_sums(server, "actor=test/adder,max-batch=8,set=rows=3"));
  CHECK(must(server.table.describe("sums", "")).max_batch == 3);
  CHECK(says(ask(server.table, sum_of({1, 2, 3, 4}, {1, 2, 3, 4, 5, 6, 7, 8})), "takes 1 to 3 rows in a request"));
}

TEST_CASE("a replica whose start hangs does not keep others from taking the places of those that were lost",
          "[serve]") {
  Server server;
  must(load_sums(server, "actor=test/adder,replicas=2,gpus=0.25"));
  const auto serving = [&] { return must(server.table.describe("sums", "")).replicas; };
  CHECK(serving() == 2);
  {
    const HeldConstructors held{1};
    for (const auto* name : {"sums/1/1", "sums/1/2"})
      must(server.cluster.kill(name));
    REQUIRE(eventually([&] { return serving() == 1 && must(server.cluster.state()).leases_size() == 2; }));
    CHECK(must(ask(server.table, sum_of({5}, {1, 2}))).version == "1");
  }
  REQUIRE(eventually([&] { return serving() == 2; }));
}

TEST_CASE("replicas run only on nodes that have the labels of their model", "[serve]") {
  gpuactors::EmbedOptions embedding;
  for (const auto* name : {"one", "two"}) {
    embedding.nodes.emplace_back();
    embedding.nodes.back().name = name;
    embedding.nodes.back().devices = "host:1x64MiB";
    embedding.nodes.back().labels["zone"] = name;
  }
  auto cluster = must(gpuactors::Cluster::embed(std::move(embedding)));
  ModelTable table{cluster, {}};
  must(table.add(must(parse_model("sums,actor=test/adder,label=zone=two,replicas=2", {}))));
  must(table.load("sums", {}));
  const auto state = must(cluster.state());
  REQUIRE(state.leases_size() == 2);
  CHECK(state.leases(0).node() == "two");
  CHECK(state.leases(1).node() == "two");
}

TEST_CASE("a node that has just granted something is no longer taken for one that is being emptied", "[serve]") {
  gpuactors::EmbedOptions embedding;
  embedding.nodes.emplace_back();
  embedding.nodes.back().name = "one";
  embedding.nodes.back().devices = "host:1x64MiB";
  auto cluster = must(gpuactors::Cluster::embed(std::move(embedding)));
  NodeWatch watch{cluster};
  must(cluster.drain("one"));
  REQUIRE(eventually([&] { return !watch.draining().empty(); }));
  watch.serves("one");
  CHECK(watch.draining().empty());
  // It is, again, as soon as the broker says so later.
  REQUIRE(eventually([&] { return !watch.draining().empty(); }));
}

TEST_CASE("an actor type that there is not, or that lacks a method, is refused with what is needed", "[serve]") {
  check_refused("actor=test/addre", Errc::not_found,
                "there is no actor type \"test/addre\"; did you mean \"test/adder\"?");
  check_refused("actor=test/only-describes", Errc::invalid_argument,
                "actor type test/only-describes cannot be served: a method infer: gpuactors.v1.ReplicaBatch -> "
                "gpuactors.v1.ReplicaReply is needed, and it has only describe");
  check_refused("actor=test/mute", Errc::invalid_argument,
                "and its method is gpuactors.v1.ReplicaBatch -> "
                "google.protobuf.Empty");
  check_refused("actor=test/strange", Errc::invalid_argument,
                "it is configured with a google.protobuf.Empty, not with a gpuactors.v1.ReplicaConfig");
}

TEST_CASE("a description that makes no sense is refused with the reason", "[serve]") {
  const auto prefix = std::string{"actor type test/adder describes a model that cannot be served: "};
  check_refused("actor=test/adder,set=fault=datatype", Errc::invalid_argument,
                prefix + "input \"left\" is of the datatype \"FLOAT\"");
  check_refused("actor=test/adder,set=fault=twice", Errc::invalid_argument, prefix + "it has two inputs with the name");
  check_refused("actor=test/adder,set=fault=shape", Errc::invalid_argument,
                prefix + "input \"right\" has rows of the shape [0]");
  check_refused("actor=test/adder,set=fault=rows", Errc::invalid_argument,
                prefix + "it takes batches of up to -1 rows");
  check_refused("actor=test/adder,set=fault=changes", Errc::invalid_argument,
                "describes itself otherwise than the first replica of model sums, version 1");
}

TEST_CASE("an actor that fails, refuses zeros, or answers the wrong size does not serve", "[serve]") {
  check_refused("actor=test/adder,set=fault=constructor", Errc::task_failed, "there is no such dictionary");
  check_refused("actor=test/adder,set=fault=zeros", Errc::invalid_argument,
                "does not answer a batch of 32 rows of zeros: a zero is no word");
  check_refused("actor=test/adder,set=fault=size", Errc::internal,
                "answered 33 bytes of \"version\" for 32 rows of 1 bytes");
  check_refused("actor=test/adder,set=fault=outputs", Errc::internal, "answered 1 outputs: it has 2");
}

TEST_CASE("when a new version of an actor's model is refused, the old one serves on", "[serve]") {
  Server server;
  TableOptions options;
  options.load_paths = server.folder / "allowed";
  std::filesystem::create_directory(options.load_paths);
  ModelTable table{server.cluster, options};
  const auto path = server.folder / "words";
  std::ofstream{path} << "some words";
  must(table.add(must(parse_model("sums=" + path.string() + ",actor=test/adder", {}))));
  must(table.load("sums", {}));
  std::filesystem::remove(path);
  CHECK(code_of(table.load("sums", {})) == Errc::not_found);
  CHECK(must(ask(table, sum_of({5}, {1, 2}))).version == "1");
}

TEST_CASE("what a replica says of itself is read with all its limits", "[serve]") {
  const auto refused = [](const wire::ReplicaDescription& description, const std::string& words) {
    const auto facts = read_facts(description);
    CHECK(code_of(facts) == Errc::invalid_argument);
    CHECK(says(facts, words));
  };
  auto good = digits_description();
  good.clear_takes_tensors();
  const auto facts = must(read_facts(good));
  CHECK(facts.row_in_bytes == inputs * sizeof(float));
  CHECK(facts.max_rows == (gpuactors::limits::payload_bytes - 256) / facts.row_in_bytes);
  auto bad = good;
  bad.clear_inputs();
  refused(bad, "it has 0 inputs: 1 to 16 are allowed");
  bad = good;
  for (int i = 0; i < 16; ++i)
    *bad.add_outputs() = good.outputs(0);
  refused(bad, "it has 17 outputs: 1 to 16 are allowed");
  bad = good;
  bad.mutable_inputs(0)->clear_name();
  refused(bad, "an input has a name of 0 bytes: 1 to 128 are allowed");
  bad = good;
  bad.mutable_outputs(0)->set_datatype("BYTES");
  const auto texts = must(read_facts(bad));
  CHECK(texts.answers_texts);
  CHECK_FALSE(texts.takes_texts);
  CHECK(texts.row_out_bytes == outputs * 4); // of empty ones
  bad = good;
  bad.mutable_inputs(0)->add_row_shape(std::int64_t{1} << 62);
  refused(bad, "a row has at most 4194048 bytes");
  bad = good;
  for (int i = 0; i < 8; ++i)
    bad.mutable_inputs(0)->add_row_shape(1);
  refused(bad, "rows of 9 dimensions: at most 7 are allowed");
  bad = good;
  for (int i = 0; i < 2; ++i) {
    auto* wide = bad.add_outputs();
    wide->set_name(std::string(1, static_cast<char>('a' + i)));
    wide->set_datatype("UINT8");
    wide->add_row_shape(3 << 20);
  }
  refused(bad, "rows of 32 and 6291468 bytes; a row has at most 4194048");
}
