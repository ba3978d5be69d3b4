// Tasks that are source on the fake driver: the compiler and the cluster are real, the chip is not.
#include <gpuactors/gpuactors.hpp>

#include <support/catch.hpp>
#include <support/results.hpp>

#include <device/fake_driver.hpp>

#include <iostream>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

/// What the fake driver knows, and what the compiler makes of it.
constexpr auto square_plus = "extern \"C\" __global__ void square_plus(const float* x, float* y, unsigned n) {\n"
                             "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "  if (i < n) y[i] = x[i] * x[i] + 2 * x[i] + 1;\n"
                             "}\n";
constexpr auto add_to = "extern \"C\" __global__ void add_to(double* x, double by, long long n) {\n"
                        "  for (long long i = threadIdx.x; i < n; i += blockDim.x) x[i] += by;\n"
                        "}\n";
constexpr auto overflow = "extern \"C\" __global__ void overflow(long long* x) { *x = (1LL << 53) + 1; }\n";

Cluster embed_cuda() {
  EmbedOptions options;
  options.devices = "cuda:GPU-00";
  return must(Cluster::embed(std::move(options)));
}

Result<v1::SourceResult> run(Cluster& cluster, const v1::SourceTask& task) {
  return cluster.submit<v1::SourceResult>(SourceTask::type, task, {.gpus = 0.5}).get();
}

Result<v1::SourceResult> run(Cluster& cluster, const SourceTask& task) {
  return run(cluster, task.message());
}

/// Whether there is a compiler; printed once if not.
bool can_compile() {
  static const bool can = [] {
    auto cluster = embed_cuda();
    const auto tried = run(cluster, SourceTask{{"extern \"C\" __global__ void f() {}", "f"}});
    if (tried || tried.error().code() != Errc::unsupported)
      return true;
    std::cerr << "skipped: " << tried.error().message() << '\n';
    return false;
  }();
  return can;
}

} // namespace

TEST_CASE("a kernel that is sent as source computes on tensors of the program") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  const auto x = must(cluster.put(std::vector<float>{0, 1, 2, -3}, {2, 2}));
  SourceTask task{{square_plus, "square_plus"}, {{1, 1, 1}, {32, 1, 1}, 0}};
  task.in(x.ref()).out(DType::f32, {2, 2}).scalar(4U);
  for (int i = 0; i < 2; ++i) {
    const auto result = must(run(cluster, task));
    REQUIRE(result.outputs_size() == 1);
    CHECK(result.kind() == "cuda");
    CHECK(result.device() == 0);
    CHECK(result.share() == 0.5);
    const auto y = must(cluster.get(result.outputs(0).ref()));
    CHECK(y.shape() == std::vector<std::int64_t>{2, 2});
    CHECK(must(y.to_host<float>()) == std::vector<float>{1, 4, 9, 4});
  }
  CHECK(must(x.to_host<float>()) == std::vector<float>{0, 1, 2, -3});
}

TEST_CASE("a tensor that the kernel writes is a copy, also of one that it reads under another number") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  const auto x = must(cluster.put(std::vector<double>{1, 2, 3}, {3}));
  SourceTask task{{add_to, "add_to"}};
  task.in_out(x.ref()).scalar(0.5).scalar(std::int64_t{3});
  const auto result = must(run(cluster, task));
  CHECK(must(must(cluster.get(result.outputs(0).ref())).to_host<double>()) == std::vector<double>{1.5, 2.5, 3.5});
  CHECK(must(x.to_host<double>()) == std::vector<double>{1, 2, 3});
  // The kernel reads and writes what was one tensor.
  const auto y = must(cluster.put(std::vector<float>{1, 2}, {2}));
  SourceTask both{{square_plus, "square_plus"}};
  both.in(y.ref()).in_out(y.ref()).scalar(2U);
  const auto other = must(run(cluster, both));
  CHECK(must(must(cluster.get(other.outputs(0).ref())).to_host<float>()) == std::vector<float>{4, 9});
  CHECK(must(y.to_host<float>()) == std::vector<float>{1, 2});
}

TEST_CASE("numbers go and come in messages where they are few") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  v1::SourceTask task = SourceTask{{add_to, "add_to"}}.message();
  auto& tensor = *task.add_arguments()->mutable_in_out();
  tensor.set_dtype(v1::F64);
  tensor.add_shape(2);
  tensor.add_values(1.25);
  tensor.add_values(-2);
  task.add_arguments()->mutable_scalar()->set_f64(1);
  task.add_arguments()->mutable_scalar()->set_i64(2);
  task.set_return_values(true);
  const auto result = must(run(cluster, task));
  REQUIRE(result.outputs_size() == 1);
  CHECK_FALSE(result.outputs(0).has_ref());
  CHECK(result.outputs(0).dtype() == v1::F64);
  REQUIRE(result.outputs(0).values_size() == 2);
  CHECK(result.outputs(0).values(0) == 2.25);
  CHECK(result.outputs(0).values(1) == -1);

  SourceTask large{{square_plus, "square_plus"}};
  auto message = large.out(DType::f32, {1}).out(DType::f32, {65'536}).scalar(0U).message();
  message.set_return_values(true);
  CHECK(says(run(cluster, message), "the outputs have 65537 values: return_values allows 65536"));
  auto whole = SourceTask{{overflow, "overflow"}}.out(DType::i64, {1}).message();
  whole.set_return_values(true);
  CHECK(says(run(cluster, whole), "the value 9007199254740993, which an answer with return_values cannot hold"));
  whole.set_return_values(false);
  const auto by_reference = must(run(cluster, whole));
  CHECK(must(must(cluster.get(by_reference.outputs(0).ref())).to_host<std::int64_t>())
        == std::vector<std::int64_t>{9'007'199'254'740'993});
}

TEST_CASE("numbers of 16 bits are rounded where they go in, and come back as they are") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  for (const auto& [dtype, third] : {std::pair{v1::F16, 0x1.554p-2}, {v1::BF16, 0x1.56p-2}}) {
    v1::SourceTask task = SourceTask{{add_to, "add_to"}}.message();
    auto& tensor = *task.add_arguments()->mutable_in_out();
    tensor.set_dtype(dtype);
    tensor.add_shape(1);
    tensor.add_values(1.0 / 3);
    task.add_arguments()->mutable_scalar()->set_f64(1);
    task.add_arguments()->mutable_scalar()->set_i64(0); // the kernel adds to no element
    task.set_return_values(true);
    const auto result = must(run(cluster, task));
    REQUIRE(result.outputs_size() == 1);
    CHECK(result.outputs(0).dtype() == dtype);
    REQUIRE(result.outputs(0).values_size() == 1);
    CHECK(result.outputs(0).values(0) == third);
  }
}

TEST_CASE("source that does not compile comes back with the compiler's lines, and the next task runs") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  const auto wrong = run(cluster, SourceTask{{"extern \"C\" __global__ void f() {\n  nonsense;\n}\n", "f"}});
  CHECK(code_of(wrong) == Errc::invalid_argument);
  CHECK(says(wrong, "the source of kernel f does not compile:\nkernel.cu(2): error"));
  CHECK(wrong.error().remedy() == Remedy::give_up);
  const auto missing = run(cluster, SourceTask{{square_plus, "cube"}});
  CHECK(code_of(missing) == Errc::invalid_argument);
  CHECK(says(missing, "cube"));
  v1::SourceTask none = SourceTask{{add_to, "add_to"}}.message();
  CHECK(says(run(cluster, none), "kernel add_to declares 3 arguments of [8, 8, 8] B and was given 0 of [] B"));
  CHECK(code_of(run(cluster, none)) == Errc::invalid_argument);
}

TEST_CASE("arguments that are not what the kernel declares do not reach the driver") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  const auto x = must(cluster.put(std::vector<double>{1}, {1}));
  SourceTask narrow{{add_to, "add_to"}};
  narrow.in_out(x.ref()).scalar(1.0F).scalar(std::int64_t{1});
  CHECK(says(run(cluster, narrow), "declares 3 arguments of [8, 8, 8] B and was given 3 of [8, 4, 8] B"));
  SourceTask more{{add_to, "add_to"}};
  more.in_out(x.ref()).scalar(1.0).scalar(std::int64_t{1}).scalar(1);
  CHECK(says(run(cluster, more), "and was given 4 of"));
}

TEST_CASE("tensors that are gone, and outputs beyond the lease, fail the task by the number of the argument") {
  if (!can_compile())
    return;
  auto cluster = embed_cuda();
  auto ref = must(cluster.put(std::vector<double>{1}, {1})).ref();
  SourceTask gone{{add_to, "add_to"}};
  gone.scalar(1).in_out(ref);
  const auto missing = run(cluster, gone);
  CHECK(code_of(missing) == Errc::not_found);
  CHECK(says(missing, "argument 1: "));
  SourceTask large{{square_plus, "square_plus"}};
  large.out(DType::f64, {std::int64_t{1} << 40});
  const auto refused = run(cluster, large);
  CHECK(code_of(refused) == Errc::out_of_memory);
  CHECK(says(refused, "argument 0: "));
  const auto empty = must(cluster.put(std::vector<double>{}, {0}));
  SourceTask nothing{{add_to, "add_to"}};
  nothing.in(empty.ref());
  CHECK(code_of(run(cluster, nothing)) == Errc::invalid_argument);
}

TEST_CASE("tasks of source leave nothing behind in the driver") {
  if (!can_compile())
    return;
  const auto before = live();
  {
    auto cluster = embed_cuda();
    const auto x = must(cluster.put(std::vector<double>(1000, 1), {1000}));
    for (int i = 0; i < 3; ++i) {
      SourceTask task{{add_to, "add_to"}};
      task.in_out(x.ref()).scalar(1.0).scalar(std::int64_t{1000});
      REQUIRE(run(cluster, task));
      REQUIRE_FALSE(run(cluster, SourceTask{{"nonsense", "add_to"}}));
    }
  }
  CHECK(live() == before);
}
