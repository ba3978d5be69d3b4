// Checkpoints: what was saved goes on bit for bit, and what is damaged or of another network is refused.
#include "host.hpp"
#include "reference.hpp"

#include <gpuactors/device/faulty.hpp>

#include <apps/nn/checkpoint.hpp>
#include <support/temporary_folder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

namespace nn::test {

using gpuactors::DType;
using gpuactors::Errc;
using gpuactors::test::TemporaryFolder;

namespace {

constexpr std::int64_t rows = 9;

TrainerSpec spec_with(Optimizer optimizer, DType dtype = DType::f32) {
  return {{{4, 17, 3}, Activation::tanh, dtype, 0.125, rows}, Loss::mean_squared_error, optimizer};
}

/// A trainer with something to learn.
struct Student {
  explicit Student(const TrainerSpec& spec, std::uint64_t seed = 5)
    : context(open_host()), trainer(must(Trainer::make(context->stream(), spec, seed))) {
    auto& stream = context->stream();
    x = upload(stream, spec.network, random_values(rows * 4, 1, 0, 8), {rows, 4});
    targets = upload(stream, spec.network, random_values(rows * 3, 2), {rows, 3});
    losses = must(stream.tensor(spec.network.dtype, {rows}));
  }

  void learn(int steps) {
    for (int i = 0; i < steps; ++i)
      must(trainer.step({rows, x.raw(), targets.raw(), nullptr, 0, losses.raw()}));
  }

  std::vector<double> values() {
    return download(context->stream(), trainer.network().values());
  }

  std::unique_ptr<gpuactors::Context> context;
  Trainer trainer;
  gpuactors::Tensor x;
  gpuactors::Tensor targets;
  gpuactors::Tensor losses;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream{path, std::ios::binary} << text;
}

/// The f32 arrays of a file in 16 bits.
template <class T>
struct Rounded {
  explicit Rounded(const NamedArrays& whole) : arrays(whole) {
    for (auto& [name, array] : arrays) {
      auto& rounded = values.emplace_back();
      for (std::size_t at = 0; at < array.bytes.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, array.bytes.data() + at, sizeof value);
        rounded.push_back(T{value});
      }
      array.dtype = gpuactors::dtype_of<T>;
      array.bytes = std::as_bytes(std::span{rounded});
    }
  }

  NamedArrays arrays;
  std::vector<std::vector<T>> values;
};

/// A file as another program may write it: spaces in its head, arrays in an order of its own, and no checksum.
std::string written_elsewhere(const Metadata& metadata, const NamedArrays& arrays) {
  std::string head = R"({"__metadata__": {"format": "pt")";
  for (const auto& [key, value] : metadata)
    head += fmt::format(R"(, "{}": "{}")", key, value);
  head += "}";
  std::string bytes;
  for (auto at = arrays.rbegin(); at != arrays.rend(); ++at) {
    const auto& [name, array] = *at;
    auto type = std::string{gpuactors::to_string(array.dtype)};
    std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::toupper(c); });
    head += fmt::format(R"(, "{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}})", name, type,
                        fmt::join(array.shape, ", "), bytes.size(), bytes.size() + array.bytes.size());
    bytes.append(reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size());
  }
  head += "}";
  const std::uint64_t length = head.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + head + bytes;
}

} // namespace

TEST_CASE("a training that was saved goes on bit for bit", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "training.safetensors";
  for (const auto dtype : {DType::f32, DType::f64})
    for (const auto& optimizer : std::vector<Optimizer>{
             {.rate = 0.1}, {.rate = 0.1, .momentum = 0.9}, {.kind = OptimizerKind::adam, .rate = 0.01}}) {
      const auto spec = spec_with(optimizer, dtype);
      Student whole{spec};
      whole.learn(20);
      Student first{spec};
      first.learn(7);
      must(save_training(path, first.trainer, 42, {{"training.data", "here"}}));
      Student second{spec, 6};
      const auto progress = must(load_training(path, second.trainer));
      CHECK(progress.step == 7);
      CHECK(progress.seed == 42);
      CHECK(progress.notes == Metadata{{"training.data", "here"}});
      CHECK(second.trainer.steps() == 7);
      second.learn(13);
      CHECK(second.values() == whole.values());
    }
}

TEST_CASE("a network is loaded from the checkpoint of a training or from its own", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "network.safetensors";
  Student student{spec_with({.rate = 0.1})};
  student.learn(3);
  auto& stream = student.context->stream();
  auto expected = must(stream.tensor(DType::f32, {rows, 3}));
  must(student.trainer.network().forward(student.x, expected));
  for (const bool training : {true, false}) {
    must(training ? save_training(path, student.trainer, 1) : save_network(path, student.trainer.network()));
    const auto spec = must(read_spec(path));
    CHECK(spec.sizes == std::vector<std::int64_t>{4, 17, 3});
    CHECK(spec.hidden == Activation::tanh);
    CHECK(spec.input_scale == 0.125);
    auto network = must(load_network(stream, path, rows));
    CHECK(network.spec().max_rows == rows);
    auto logits = must(stream.tensor(DType::f32, {rows, 3}));
    must(network.forward(student.x, logits));
    CHECK(download(stream, logits) == download(stream, expected));
  }
}

TEMPLATE_TEST_CASE("a network that another program stored in 16 bits computes with its parameters in float32", "[nn]",
                   gpuactors::Float16, gpuactors::BFloat16) {
  const TemporaryFolder folder;
  const auto path = folder / "network.safetensors";
  Student student{spec_with({.rate = 0.1})};
  auto& stream = student.context->stream();
  must(save_network(path, student.trainer.network()));
  const auto whole = must(read_safetensors(path));
  const Rounded<TestType> rounded{whole.arrays};
  write(path, written_elsewhere(whole.metadata, rounded.arrays));
  CHECK(must(read_spec(path)).dtype == DType::f32);
  auto network = must(load_network(stream, path, rows));
  const auto expected = student.values();
  const auto loaded = download(stream, network.values());
  REQUIRE(loaded.size() == expected.size());
  bool all_rounded = true;
  for (std::size_t i = 0; i < loaded.size(); ++i)
    all_rounded = all_rounded && loaded[i] == static_cast<double>(TestType{expected[i]});
  CHECK(all_rounded);
  // All arrays have one type.
  auto mixed = rounded.arrays;
  mixed.at("layers.0.bias") = whole.arrays.at("layers.0.bias");
  write(path, written_elsewhere(whole.metadata, mixed));
  CHECK(says(load_network(stream, path, rows).error(), "layer 0 do not fit each other"));
}

TEST_CASE("a file without a checksum is loaded as a network only, and never one with a wrong checksum", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "network.safetensors";
  Student student{spec_with({.rate = 0.1})};
  student.learn(3);
  auto& stream = student.context->stream();
  must(save_training(path, student.trainer, 1));
  const auto whole = must(read_safetensors(path));
  const auto text = written_elsewhere(whole.metadata, whole.arrays);
  write(path, text);
  CHECK(download(stream, must(load_network(stream, path, rows)).values()) == student.values());
  CHECK(says(load_training(path, student.trainer).error(), "has no checksum"));
  CHECK(says(read_safetensors(path).error(), "has no checksum"));
  write(path, text.substr(0, text.size() - 1));
  CHECK(says(load_network(stream, path, rows).error(), "truncated"));
  // As programs leave it that change a file and keep its metadata; then what is no checksum at all.
  auto metadata = whole.metadata;
  for (const auto* checksum : {"0000000000000000000000000000000000000000000000000000000000000000", "", "0"}) {
    metadata["gpuactors.sha256"] = checksum;
    write(path, written_elsewhere(metadata, whole.arrays));
    CHECK(says(load_network(stream, path, rows).error(), "its checksum does not fit"));
    CHECK(says(load_training(path, student.trainer).error(), "its checksum does not fit"));
  }
}

TEMPLATE_TEST_CASE("a training does not go on with arrays that were rounded to 16 bits", "[nn]", gpuactors::Float16,
                   gpuactors::BFloat16) {
  const TemporaryFolder folder;
  const auto path = folder / "training.safetensors";
  Student student{spec_with({.kind = OptimizerKind::adam, .rate = 0.01})};
  student.learn(3);
  must(save_training(path, student.trainer, 1));
  const auto whole = must(read_safetensors(path));
  const Rounded<TestType> rounded{whole.arrays};
  const auto before = student.values();
  const auto refusal_of = [&](const NamedArrays& arrays) {
    must(write_safetensors(path, whole.metadata, arrays));
    return load_training(path, student.trainer).error();
  };
  const auto type = gpuactors::to_string(gpuactors::dtype_of<TestType>);
  CHECK(says(refusal_of(rounded.arrays), fmt::format("layers.0.weight was rounded to {}", type)));
  // It can be served all the same.
  must(load_network(student.context->stream(), path, rows));
  // Of the memory of the optimizer only.
  auto partly = whole.arrays;
  partly.at("optimizer.second.layers.1.bias") = rounded.arrays.at("optimizer.second.layers.1.bias");
  CHECK(says(refusal_of(partly), fmt::format("optimizer.second.layers.1.bias was rounded to {}", type)));
  CHECK(student.values() == before);
  must(write_safetensors(path, whole.metadata, whole.arrays));
  must(load_training(path, student.trainer));
}

TEST_CASE("a file that was cut or altered anywhere is refused, and changes nothing", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "damaged.safetensors";
  Student student{spec_with({.rate = 0.1, .momentum = 0.5})};
  student.learn(3);
  must(save_training(path, student.trainer, 1));
  const auto good = read(path);
  const auto before = student.values();
  const auto refused = [&](const std::string& text) {
    write(path, text);
    const auto loaded = load_training(path, student.trainer);
    return !loaded && loaded.error().code() == Errc::invalid_argument
           && loaded.error().message().find(path.string()) == 0;
  };
  for (std::size_t length = 0; length < good.size(); length += good.size() / 40)
    CHECK(refused(good.substr(0, length)));
  CHECK(refused(good.substr(0, good.size() - 1)));
  CHECK(refused(good + "x"));
  for (std::size_t at = 0; at < good.size(); at += 7) {
    auto altered = good;
    altered[at] = static_cast<char>(altered[at] ^ 1);
    CHECK(refused(altered));
  }
  CHECK(student.values() == before);
  CHECK(student.trainer.steps() == 3);
  write(path, good);
  must(load_training(path, student.trainer));
}

TEST_CASE("heads that lie about their arrays are refused", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "head.safetensors";
  const auto refused = [&](const std::string& head, const std::string& arrays, std::string_view words) {
    std::string text(8, '\0');
    text[0] = static_cast<char>(head.size());
    write(path, text + head + arrays);
    const auto read = read_safetensors(path);
    const auto spec = read_spec(path);
    return !read && !spec && says(read.error(), words);
  };
  CHECK(refused("{}", "", "no checksum"));
  CHECK(refused("[]", "", "no JSON object"));
  CHECK(refused(R"({"__metadata__":{"a":1}})", "", "no text"));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "", "truncated"));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "12345678", "does not lie"));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234", "not described"));
  CHECK(refused(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "1234", "not described"));
  CHECK(refused(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "", "not described"));
  CHECK(refused(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", "", "not described"));
  write(path, std::string(8, '\xFF') + "{}");
  CHECK(says(read_safetensors(path).error(), "truncated, or no safetensors file"));
}

TEST_CASE("a checkpoint that fails between its copies waits for those that are under way", "[nn]") {
  namespace faulty = gpuactors::faulty;
  const TemporaryFolder folder;
  const auto path = folder / "faulty.safetensors";
  const auto plan = std::make_shared<faulty::Plan>();
  const auto devices = must(gpuactors::make_devices(must(gpuactors::parse_device_specs("host:1x256MiB")),
                                                    gpuactors::discovery_options("test")));
  const auto context = must(gpuactors::Context::open(std::make_shared<faulty::FaultyDevice>(devices.at(0), plan), {}));
  auto trainer = must(Trainer::make(context->stream(), spec_with({.rate = 0.1, .momentum = 0.5}), 5));
  must(save_training(path, trainer, 1));
  const auto fails_and_waits = [&](const auto& run) {
    plan->reset();
    // The parameters are on their way, their momentum is not.
    plan->fail_at(faulty::Call::copy, 2, gpuactors::Error{Errc::copy_failed, "on purpose"});
    const auto result = run();
    REQUIRE_FALSE(result);
    CHECK(result.error().code() == Errc::copy_failed);
    CHECK(plan->calls(faulty::Call::synchronize) == 1);
  };
  fails_and_waits([&] { return save_training(path, trainer, 1); });
  fails_and_waits([&] { return load_training(path, trainer); });
  plan->reset();
  must(load_training(path, trainer));
  CHECK(plan->calls(faulty::Call::synchronize) == 1);
}

TEST_CASE("a checkpoint of another network, loss or optimizer is refused in words", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "other.safetensors";
  Student student{spec_with({.rate = 0.1})};
  must(save_training(path, student.trainer, 1));
  const auto refusal = [&](const TrainerSpec& spec) {
    auto context = open_host();
    auto trainer = must(Trainer::make(context->stream(), spec, 1));
    const auto loaded = load_training(path, trainer);
    REQUIRE_FALSE(loaded);
    return loaded.error();
  };
  auto wide = spec_with({.rate = 0.1});
  wide.network.sizes[1] = 18;
  CHECK(says(refusal(wide), "it is of a network 4,17,3 in f32 with tanh and inputs times 0.125, not of 4,18,3"));
  auto other = spec_with({.rate = 0.1});
  other.loss = Loss::cross_entropy;
  CHECK(says(refusal(other), "gpuactors.loss is \"mean_squared_error\", not \"cross_entropy\""));
  CHECK(says(refusal(spec_with({.rate = 0.2})), "rate=0.1 momentum=0 weight_decay=0\", not \"sgd rate=0.2"));
  CHECK(says(load_training(folder / "none", student.trainer).error(), "No such file"));
  CHECK(load_training(folder / "none", student.trainer).error().code() == Errc::not_found);
}

TEST_CASE("a file is replaced whole or not at all", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "kept.safetensors";
  Student student{spec_with({.rate = 0.1})};
  must(save_training(path, student.trainer, 1));
  const auto before = read(path);
  // In the place of what would be written first lies a folder.
  std::filesystem::create_directory(path.string() + ".part");
  student.learn(1);
  const auto failed = save_training(path, student.trainer, 1);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code() == Errc::unavailable);
  CHECK(read(path) == before);
  std::filesystem::remove(path.string() + ".part");
  must(save_training(path, student.trainer, 1));
  CHECK(read(path) != before);
  CHECK_FALSE(std::filesystem::exists(path.string() + ".part"));
}

TEST_CASE("a checkpoint that is a link to a file has the file replaced, and stays a link", "[nn]") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  const auto path = folder / "net";
  std::filesystem::create_symlink("second", path);
  std::filesystem::create_symlink(std::filesystem::path{"disk"} / "net", folder / "second"); // where nothing is yet
  Student student{spec_with({.rate = 0.1})};
  std::string before;
  for (int i = 0; i < 2; ++i) {
    must(save_training(path, student.trainer, 1));
    CHECK(std::filesystem::is_symlink(path));
    CHECK(std::filesystem::is_symlink(folder / "second"));
    CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "disk" / "net")));
    CHECK(read(path) != std::exchange(before, read(folder / "disk" / "net")));
    must(load_training(path, student.trainer));
    student.learn(1);
  }
  std::filesystem::create_symlink("circle", folder / "circle");
  CHECK(says(save_training(folder / "circle", student.trainer, 1), "a link that leads to no file"));
}

TEST_CASE("a link in the place of what is written first is not followed", "[nn]") {
  const TemporaryFolder folder;
  const auto path = folder / "kept.safetensors";
  const auto other = folder / "other";
  std::ofstream{other} << "precious";
  std::filesystem::create_symlink(other, path.string() + ".part");
  Student student{spec_with({.rate = 0.1})};
  must(save_training(path, student.trainer, 1));
  CHECK(read(other) == "precious");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
}

} // namespace nn::test
