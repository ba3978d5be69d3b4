// Batches and replies that are larger than a message, which lie beside it as tensors.
#include "models_fixture.hpp"

#include <gpuactors/actor/served_batch.hpp>

#include <apps/serve/models/request_check.hpp>
#include <apps/serve/protocol/tensor_rules.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

using namespace serve;
using namespace serve::test;
using google::protobuf::Empty;
using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Elements of a row: 1 MiB of them.
constexpr std::int64_t wide = 256 << 10;

/// Batches of any test that are to fail as those of a replica that is gone.
std::atomic<int>& losses() {
  static std::atomic<int> count{0};
  return count;
}

/// Answers each row with its negative, or a text with itself. Batches of zeros do not go through the gate.
class Mirror : public gpuactors::Actor {
public:
  Mirror(gpuactors::Init init, const wire::ReplicaConfig& config)
    : Actor(std::move(init)), texts_(config.settings().contains("texts")),
      messages_(config.settings().contains("messages")) {
    // nop
  }

  wire::ReplicaDescription describe(const Empty& /*ask*/) {
    wire::ReplicaDescription description;
    for (auto* tensor : {description.add_inputs(), description.add_outputs()}) {
      tensor->set_name("x");
      tensor->set_datatype(texts_ ? "BYTES" : "FP32");
      if (!texts_)
        tensor->add_row_shape(wide);
    }
    description.set_takes_tensors(!messages_);
    return description;
  }

  Result<wire::ReplicaReply> infer(const wire::ReplicaBatch& batch) {
    GPUACTORS_LET(inputs, gpuactors::ServedInputs::of(batch, tensors()));
    const auto x = inputs[0];
    const auto measured = std::all_of(x.begin(), x.end(), [](std::byte byte) { return byte == std::byte{}; });
    if (!measured && !gate().pass([this] { return stop_requested(); }))
      return gpuactors::fail(Errc::cancelled, "the replica is stopped");
    if (!measured && losses() > 0 && losses()-- > 0)
      return gpuactors::fail(Errc::unavailable, "as the test says");
    GPUACTORS_LET(outputs, gpuactors::ServedOutputs::make({x.size()}, tensors()));
    std::memcpy(outputs[0].data(), x.data(), x.size());
    for (std::size_t i = 3; !texts_ && i < x.size(); i += sizeof(float))
      outputs[0][i] ^= std::byte{0x80}; // the sign
    return std::move(outputs).finish();
  }

private:
  bool texts_;
  bool messages_;
};

GPUACTORS_ACTOR("test/mirror", Mirror, wire::ReplicaConfig)
    .method(describe_method, &Mirror::describe)
    .method(infer_method, &Mirror::infer);

void serve_mirror(Server& server, const std::string& keys) {
  must(server.table.add(must(parse_model("mirror,actor=test/mirror," + keys, {}))));
  must(server.table.load("mirror", {}));
}

/// Rows whose elements are all `value`, value + 1 and so on.
InferRequest rows_from(float value, std::int64_t rows) {
  std::vector<float> x;
  for (std::int64_t row = 0; row < rows; ++row)
    x.insert(x.end(), static_cast<std::size_t>(wide), value + static_cast<float>(row));
  InferRequest request;
  request.model = "mirror";
  request.inputs.push_back({"x", DataType::fp32, {rows, wide}, Bytes::of(std::move(x))});
  return request;
}

/// The value of each row of an answer; nothing if a row has several.
std::vector<float> rows_of(const InferReply& reply) {
  const auto values = values_of(reply);
  std::vector<float> rows;
  for (auto row = values.begin(); row != values.end(); row += wide) {
    if (std::any_of(row, row + wide, [&](float value) { return value != *row; }))
      return {};
    rows.push_back(*row);
  }
  return rows;
}

InferRequest text(const std::string& value) {
  std::string data;
  append_bytes_element(data, value);
  InferRequest request;
  request.model = "mirror";
  request.inputs.push_back({"x", DataType::bytes, {1}, Bytes::of(std::move(data))});
  return request;
}

} // namespace

TEST_CASE("a batch that is larger than a message is one batch, and each client gets its own rows", "[serve]") {
  Server server;
  serve_mirror(server, "max-batch=8");
  std::vector<Asked> clients;
  {
    const ClosedGate closed;
    clients.push_back(ask_async(server.table, rows_from(1, 1)));
    for (const auto rows : {1, 2, 3})
      clients.push_back(ask_async(server.table, rows_from(static_cast<float>(10 * rows), rows)));
  }
  CHECK(rows_of(must(clients[0].reply.get())) == std::vector<float>{-1});
  CHECK(rows_of(must(clients[1].reply.get())) == std::vector<float>{-10});
  CHECK(rows_of(must(clients[2].reply.get())) == std::vector<float>{-20, -21});
  CHECK(rows_of(must(clients[3].reply.get())) == std::vector<float>{-30, -31, -32});
  // And one of a request alone, as large as a batch may be.
  CHECK(rows_of(must(ask(server.table, rows_from(1, 8)))) == std::vector<float>{-1, -2, -3, -4, -5, -6, -7, -8});
  const auto statistics = must(server.table.statistics("mirror", ""));
  CHECK(statistics[0].execution_count == 3);
  CHECK(statistics[0].batches.contains(6));
}

TEST_CASE("a large batch whose replica is lost goes to another one", "[serve]") {
  Server server;
  serve_mirror(server, "max-batch=8,replicas=2");
  losses() = 1;
  CHECK(rows_of(must(ask(server.table, rows_from(1, 6)))) == std::vector<float>{-1, -2, -3, -4, -5, -6});
  CHECK(losses() == 0);
}

TEST_CASE("texts that are larger than a message are served where they may be tensors", "[serve]") {
  Server server;
  serve_mirror(server, "set=texts=1,max-batch=4");
  const std::string large(6 << 20, 'x');
  std::string expected;
  append_bytes_element(expected, large);
  const auto reply = must(ask(server.table, text(large)));
  const auto bytes = reply.outputs[0].data.view();
  CHECK(std::equal(bytes.begin(), bytes.end(), std::as_bytes(std::span{expected}).begin(),
                   std::as_bytes(std::span{expected}).end()));
}

TEST_CASE("an actor that takes messages only gets no more than these have room for", "[serve]") {
  Server server;
  serve_mirror(server, "set=messages=1,max-batch=8");
  CHECK(must(server.table.describe("mirror", "")).max_batch == 3); // of 1 MiB, as a message has other things, too
  CHECK(code_of(ask(server.table, rows_from(1, 4))) == Errc::invalid_argument);
  CHECK(rows_of(must(ask(server.table, rows_from(1, 3)))) == std::vector<float>{-1, -2, -3});
}

TEST_CASE("batches beside messages have limits of their own", "[serve]") {
  wire::ReplicaDescription description;
  for (auto* tensor : {description.add_inputs(), description.add_outputs()}) {
    tensor->set_name("x");
    tensor->set_datatype("UINT8");
    tensor->add_row_shape(5 << 20);
  }
  CHECK(says(read_facts(description), "a row has at most 4194048 bytes"));
  description.set_takes_tensors(true);
  const auto facts = must(read_facts(description));
  CHECK(facts.max_rows == 51); // in 256 MiB
  CHECK(says(check_same(must(read_facts(digits_description())), description), "describes itself otherwise"));
  // What a message says of sequences is in the message all the same.
  description.mutable_inputs(0)->set_row_shape(0, 1);
  description.mutable_outputs(0)->set_row_shape(0, 1);
  description.set_sequences(wire::SEQUENCE_MEMORY_STATE);
  CHECK(must(read_facts(description)).max_rows == most_message_bytes / sequence_bytes);
  description.mutable_outputs(0)->set_row_shape(0, 300 << 20);
  CHECK(says(read_facts(description), "a row has at most 268435456 bytes"));
}
