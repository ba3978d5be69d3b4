// TorchScript modules that answer batches: what they compute, what is refused, and what their lease allows.
#include "modules.hpp"

#include <gpuactors/device/quota.hpp>

#include <apps/torch/script_module.hpp>
#include <support/catch.hpp>

#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

using gpuactors::Errc;
using gpuactors::Quota;
using gpuactors::Result;
using torchscript::ModuleOptions;
using torchscript::ScriptModule;
namespace v1 = gpuactors::v1;

namespace {

constexpr std::uint64_t plenty = 1 << 30;

std::shared_ptr<Quota> quota_of(std::uint64_t bytes) {
  return std::make_shared<Quota>("actor tested", bytes);
}

Result<ScriptModule> load_bytes(const std::string& file, const std::string& inputs, const std::string& outputs = {},
                                std::shared_ptr<Quota> quota = quota_of(plenty), int threads = 1) {
  ModuleOptions options;
  options.title = "model m, version 1";
  options.inputs = *torchscript::parse_inputs(inputs);
  if (!outputs.empty())
    options.outputs = *torchscript::parse_rows("outputs", outputs);
  options.max_rows = 8;
  options.threads = threads;
  return ScriptModule::load({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, std::move(options),
                            std::move(quota));
}

Result<ScriptModule> load(const std::string& name, const std::string& inputs, const std::string& outputs = {},
                          std::shared_ptr<Quota> quota = quota_of(plenty), int threads = 1) {
  return load_bytes(torchtest::module_file(name), inputs, outputs, std::move(quota), threads);
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

/// Also of large batches, whose bytes are tensors of this process.
Result<v1::ReplicaReply> infer(ScriptModule& module, const v1::ReplicaBatch& batch) {
  static gpuactors::TensorStore tensors;
  return module.infer(batch, tensors);
}

v1::ReplicaBatch batch_of(std::int64_t rows, const std::vector<std::string>& inputs) {
  v1::ReplicaBatch batch;
  batch.set_rows(rows);
  for (const auto& input : inputs)
    batch.add_inputs(input);
  return batch;
}

template <class T>
void expect_error(const Result<T>& result, Errc code, const std::string& part) {
  REQUIRE_FALSE(result);
  INFO(to_string(result.error()));
  CHECK(result.error().code() == code);
  CHECK(result.error().message().find(part) != std::string::npos);
  CHECK(result.error().message().starts_with("model m, version 1: "));
}

} // namespace

TEST_CASE("a module answers as libtorch does, for every number of rows") {
  auto module = load("linear", "x:FP32:4");
  REQUIRE(module);
  REQUIRE(module->outputs().size() == 1);
  CHECK(to_string(module->outputs()[0]) == "output:FP32:2");
  std::vector<float> numbers;
  for (std::int64_t rows = 1; rows <= 8; ++rows) {
    for (int i = 0; i < 4; ++i)
      numbers.push_back(static_cast<float>(rows * 7 % 5) + static_cast<float>(i) / 3);
    auto reply = infer(*module, batch_of(rows, {bytes_of(numbers)}));
    REQUIRE(reply);
    REQUIRE(reply->outputs_size() == 1);
    CHECK(values_of<float>(reply->outputs(0)) == torchtest::run_directly("linear", numbers, {rows, 4}));
    CHECK(reply->infer_ns() > 0);
  }
}

TEST_CASE("a module may have several inputs, and answer a tuple, whose names are the settings'") {
  auto module = load("pair", "x:FP32:2+scale:FP32:2", "total+scaled:FP32:2");
  REQUIRE(module);
  CHECK(to_string(module->outputs()[0]) == "total:FP32");
  CHECK(to_string(module->outputs()[1]) == "scaled:FP32:2");
  auto reply = infer(*module, batch_of(2, {bytes_of<float>({1, 2, 3, 4}), bytes_of<float>({5, 6, 7, 8})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{3, 7});
  CHECK(values_of<float>(reply->outputs(1)) == std::vector<float>{5, 12, 21, 32});
  auto unnamed = load("pair", "x:FP32:2+scale:FP32:2");
  REQUIRE(unnamed);
  CHECK(unnamed->outputs()[1].name == "output_1");
}

TEST_CASE("whole numbers look up rows of a table, and one that is none of its rows fails alone") {
  auto module = load("table", "ids:INT64:2");
  REQUIRE(module);
  auto reply = infer(*module, batch_of(1, {bytes_of<std::int64_t>({9, 1})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{18, 19, 2, 3});
  expect_error(infer(*module, batch_of(1, {bytes_of<std::int64_t>({10, 1})})), Errc::invalid_argument, "out of range");
  CHECK(infer(*module, batch_of(1, {bytes_of<std::int64_t>({9, 1})})));
}

TEST_CASE("a frozen module, whose parameters are constants, answers the same and counts the same way") {
  const auto quota = quota_of(plenty);
  auto module = load("frozen", "x:FP32:4", {}, quota);
  REQUIRE(module);
  CHECK(quota->used() >= 10 * sizeof(float));
  auto reply = infer(*module, batch_of(1, {bytes_of<float>({1, 2, 3, 4})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{40, 51});
}

TEST_CASE("rows may have several dimensions, and answers need not be contiguous") {
  auto picture = load("picture", "x:FP32:3x5x4");
  REQUIRE(picture);
  CHECK(to_string(picture->outputs()[0]) == "output:FP32:2x5x4");
  std::vector<float> numbers(2 * 3 * 5 * 4);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i * 7 % 11);
  auto reply = infer(*picture, batch_of(2, {bytes_of(numbers)}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == torchtest::run_directly("picture", numbers, {2, 3, 5, 4}));
  auto turned = load("turned", "x:FP32:2x3");
  REQUIRE(turned);
  CHECK(to_string(turned->outputs()[0]) == "output:FP32:3x2");
  reply = infer(*turned, batch_of(1, {bytes_of<float>({1, 2, 3, 4, 5, 6})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{1, 4, 2, 5, 3, 6});
}

TEST_CASE("a module may change its own state") {
  auto module = load("writer", "x:FP32");
  REQUIRE(module);
  CHECK(infer(*module, batch_of(1, {bytes_of<float>({3})})));
  auto reply = infer(*module, batch_of(1, {bytes_of<float>({4})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{11});
}

TEST_CASE("a byte of a BOOL that is not 0 is true, whatever it is") {
  auto module = load("flags", "x:BOOL:3");
  REQUIRE(module);
  CHECK(to_string(module->outputs()[1]) == "output_1:BOOL:3");
  auto reply = infer(*module, batch_of(1, {bytes_of<std::uint8_t>({0, 7, 1})}));
  REQUIRE(reply);
  CHECK(values_of<std::uint8_t>(reply->outputs(0)) == std::vector<std::uint8_t>{0, 1, 1});
  CHECK(values_of<std::uint8_t>(reply->outputs(1)) == std::vector<std::uint8_t>{1, 0, 0});
}

TEST_CASE("outputs have the type that the module gives them") {
  auto module = load("whole", "x:FP64");
  REQUIRE(module);
  CHECK(to_string(module->outputs()[0]) == "output:INT64");
  auto reply = infer(*module, batch_of(2, {bytes_of<double>({2.7, -3})}));
  REQUIRE(reply);
  CHECK(values_of<std::int64_t>(reply->outputs(0)) == std::vector<std::int64_t>{2, -3});
}

TEST_CASE("what a module raises blames the values, in the module's words") {
  auto module = load("picky", "x:FP32");
  REQUIRE(module);
  expect_error(infer(*module, batch_of(1, {bytes_of<float>({101})})), Errc::invalid_argument, "a reading is above 100");
  CHECK(infer(*module, batch_of(1, {bytes_of<float>({100})})));
}

TEST_CASE("a module that asks for more than its lease has fails with the numbers, and a smaller request goes on") {
  const auto quota = quota_of(1 << 20);
  {
    auto module = load("hungry", "x:FP32", {}, quota);
    REQUIRE(module);
    const auto rest = quota->used();
    auto refused = infer(*module, batch_of(1, {bytes_of<float>({2e7F})}));
    expect_error(refused, Errc::out_of_memory, "asked for 80000064 B");
    expect_error(refused, Errc::out_of_memory, "limit of 1048576 B");
    CHECK(quota->used() == rest);
    auto reply = infer(*module, batch_of(1, {bytes_of<float>({100})}));
    REQUIRE(reply);
    CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{100});
    CHECK(quota->used() == rest);
  }
  CHECK(quota->used() == 0);
}

TEST_CASE("parameters count, and what a lease has no room for is not loaded") {
  const auto quota = quota_of(8 << 20);
  {
    auto module = load("large", "x:FP32", {}, quota);
    REQUIRE(module);
    CHECK(quota->used() >= 4 << 20);
  }
  CHECK(quota->used() == 0);
  const auto small = quota_of(4 << 20);
  expect_error(load("large", "x:FP32", {}, small), Errc::out_of_memory, "limit of 4194304 B");
  CHECK(small->used() == 0);
}

TEST_CASE("a module that changes its inputs, or keeps them, changes nothing of the batch") {
  auto changer = load("changer", "x:FP32:4");
  REQUIRE(changer);
  const auto batch = batch_of(1, {bytes_of<float>({1, 2, 3, 4})});
  auto reply = infer(*changer, batch);
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{2, 3, 4, 5});
  CHECK(values_of<float>(batch.inputs(0)) == std::vector<float>{1, 2, 3, 4});
  auto keeper = load("keeper", "x:FP32");
  REQUIRE(keeper);
  CHECK(infer(*keeper, batch_of(1, {bytes_of<float>({5})})));
  reply = infer(*keeper, batch_of(1, {bytes_of<float>({10})}));
  REQUIRE(reply);
  CHECK(values_of<float>(reply->outputs(0)) == std::vector<float>{15});
}

TEST_CASE("an answer with other rows than were sent is the module's fault") {
  auto module = load("growing", "x:FP32:1");
  REQUIRE(module);
  expect_error(infer(*module, batch_of(1, {bytes_of<float>({2})})), Errc::task_failed, "Float [3,1] for 1 rows");
}

TEST_CASE("a batch that the description does not allow is refused with the numbers") {
  auto module = load("linear", "x:FP32:4");
  REQUIRE(module);
  expect_error(infer(*module, batch_of(1, {bytes_of<float>({1, 2, 3})})), Errc::invalid_argument,
               "input \"x\" has 12 bytes for 1 rows: 16 are expected");
  expect_error(infer(*module, batch_of(0, {""})), Errc::invalid_argument, "0 rows");
  expect_error(infer(*module, batch_of(9, {std::string(144, '\0')})), Errc::invalid_argument, "9 rows");
  expect_error(infer(*module, batch_of(1, {})), Errc::invalid_argument, "of 0 inputs");
}

TEST_CASE("what is no TorchScript is refused") {
  expect_error(load_bytes("", "x:FP32"), Errc::invalid_argument, "the file of 0 B is no TorchScript");
  expect_error(load_bytes("a text", "x:FP32"), Errc::invalid_argument, "the file of 6 B is no TorchScript");
  const auto file = torchtest::module_file("linear");
  expect_error(load_bytes(file.substr(0, file.size() / 2), "x:FP32:4"), Errc::invalid_argument, "is no TorchScript");
}

TEST_CASE("a module that does not take or answer what the settings say is refused with what it does") {
  expect_error(load("pair", "x:FP32"), Errc::invalid_argument,
               "forward takes 2 tensors (x, scale), and the setting "
               "inputs has 1");
  expect_error(load("counted", "x:FP32+n:INT64"), Errc::invalid_argument, "the argument n as int");
  expect_error(load("linear", "x:FP32:5"), Errc::invalid_argument, "(1x5 and 4x2)");
  expect_error(load("sum", "x:FP32:4"), Errc::invalid_argument, "the shape [] for one row");
  expect_error(load("mixing", "x:FP32:4"), Errc::invalid_argument, "Float [1,4] for 8 rows: Float [8,4] is expected");
  expect_error(load("scalar", "x:FP32:4"), Errc::invalid_argument, "forward answers Int");
  expect_error(load("pair", "x:FP32+scale:FP32", "one"), Errc::invalid_argument,
               "forward answers 2 tensors, and the "
               "setting outputs has 1");
  expect_error(load("linear", "x:FP32:4", "y:FP32:3"), Errc::invalid_argument,
               "the setting outputs says y:FP32:3, and forward answers y:FP32:2");
}

TEST_CASE("each thread of the program has libtorch use as many threads as its lease") {
  const auto threads_with = [](int threads, std::optional<int>& seen) {
    auto module = load("busy", "x:FP32", {}, quota_of(plenty), threads);
    REQUIRE(module);
    REQUIRE(infer(*module, batch_of(1, {bytes_of<float>({1})})));
    seen = torchtest::threads_here();
    CHECK(module->threads() == *seen);
  };
  std::optional<int> outer;
  std::optional<int> inner;
  std::optional<int> after;
  std::thread{[&] {
    threads_with(3, outer);
    std::thread{[&] { threads_with(1, inner); }}.join();
    after = torchtest::threads_here();
  }}.join();
  CHECK(outer == 3);
  CHECK(inner == 1);
  CHECK(after == 3);
}
