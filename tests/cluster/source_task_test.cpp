// Tasks that are source, as far as they come without a GPU: what is refused, and in which words.
#include "fixtures.hpp"

#include <support/catch.hpp>

#include <limits>
#include <string_view>

using namespace gpuactors;
using namespace gpuactors::test;

namespace {

v1::SourceTask kernel() {
  return SourceTask{{"extern \"C\" __global__ void f(float* x) {}", "f"}}.message();
}

/// A kernel with one argument, which is a tensor with these values.
v1::SourceTask with_values(v1::DType dtype, const std::vector<std::int64_t>& shape, const std::vector<double>& values) {
  auto task = kernel();
  auto& tensor = *task.add_arguments()->mutable_in();
  tensor.set_dtype(dtype);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_values()->Add(values.begin(), values.end());
  return task;
}

bool is_refused(const v1::SourceTask& task, std::string_view words) {
  const auto checked = check_source_task(task);
  if (checked)
    return false;
  UNSCOPED_INFO(checked.error().message());
  return checked.error().code() == Errc::invalid_argument && checked.error().message().find(words) != std::string::npos;
}

Cluster embed_all(bool runtime_source) {
  EmbedOptions options;
  options.devices = "host:1x64MiB";
  options.runtime_source = runtime_source;
  return must(Cluster::embed(std::move(options)));
}

} // namespace

TEST_CASE("a task of source says what it is made of", "[cluster]") {
  SourceTask task{{"source", "f", {"-DN=3"}}, {{1, 2, 3}, {4, 5, 6}, 7}};
  v1::TensorRef ref;
  ref.set_id(8);
  task.in(ref).in_out(ref).out(DType::i64, {2, 3}).scalar(1.0F).scalar(2U).scalar(std::int64_t{-3});
  const auto& message = task.message();
  CHECK(message.grid().z() == 3);
  CHECK(message.block().x() == 4);
  CHECK(message.shared_bytes() == 7);
  CHECK(message.options(0) == "-DN=3");
  REQUIRE(message.arguments_size() == 6);
  CHECK(message.arguments(0).in().ref().id() == 8);
  CHECK(message.arguments(1).has_in_out());
  CHECK(message.arguments(2).out().shape(1) == 3);
  CHECK(message.arguments(3).scalar().f32() == 1.0F);
  CHECK(message.arguments(5).scalar().i64() == -3);
  CHECK(check_source_task(message));
}

TEST_CASE("source without a kernel, or too much of it, is refused", "[cluster]") {
  CHECK(check_source_task(kernel()));
  auto task = kernel();
  task.clear_kernel();
  CHECK(is_refused(task, "kernel is empty"));
  task = kernel();
  task.clear_source();
  CHECK(is_refused(task, "source is empty"));
  task.set_source(std::string(limits::source_bytes, ' '));
  CHECK(is_refused(task, "has 1048577 B: at most 1048576 are allowed"));
}

TEST_CASE("options that concern the code alone are allowed, those that touch files of the node are not", "[cluster]") {
  for (const auto* option : {"-DTILE=16", "-UX", "-std=c++20", "--std=c++17", "--use_fast_math", "--fmad=false",
                             "-maxrregcount=32", "--define-macro=X", "-Iinclude", "--disable-warnings"}) {
    auto task = kernel();
    task.add_options(option);
    CHECK(check_source_task(task));
  }
  for (const auto* option : {"--time=file", "-time=file", "--create-pch=x", "--use-pch=x", "--device-time-trace=x",
                             "-D", "--fmad=", "--use_fast_math=x", "", "-w", "--gpu-architecture=sm_50"}) {
    auto task = kernel();
    task.add_options(option);
    CHECK(is_refused(task, "is not for tasks"));
  }
  auto task = kernel();
  for (int i = 0; i < 65; ++i)
    task.add_options("-DX");
  CHECK(is_refused(task, "65 options: at most 64 are allowed"));
}

TEST_CASE("arguments that are not there, too many or not of a size are refused by their number", "[cluster]") {
  auto task = kernel();
  task.add_arguments();
  CHECK(is_refused(task, "argument 0 is empty"));
  task = kernel();
  task.add_arguments()->mutable_scalar()->set_u32(1);
  task.add_arguments()->mutable_scalar();
  CHECK(is_refused(task, "argument 1 is empty"));
  task = kernel();
  for (int i = 0; i < 129; ++i)
    task.add_arguments()->mutable_scalar()->set_f64(i);
  CHECK(is_refused(task, "is given 129 arguments: at most 128 are allowed"));

  CHECK(check_source_task(with_values(v1::F32, {2, 2}, {1, 2, 3, 4})));
  CHECK(is_refused(with_values(v1::F32, {2, 2}, {1, 2, 3}), "as many values as its shape [2, 2] says: 4 and not 3"));
  CHECK(is_refused(with_values(v1::F32, {}, {}), "argument 0 has 0 dimensions: 1 to 8 are expected"));
  CHECK(is_refused(with_values(v1::F32, {0}, {}), "the shape [0]"));
  CHECK(is_refused(with_values(v1::F32, {-1}, {}), "the shape [-1]"));
  CHECK(is_refused(with_values(v1::F32, {1LL << 32, 1LL << 32}, {}), "none: dimensions of at least 1"));
  CHECK(is_refused(with_values(v1::DTYPE_UNSPECIFIED, {1}, {1}), "has no dtype"));
  CHECK(is_refused(with_values(static_cast<v1::DType>(77), {1}, {1}), "has no dtype"));
  CHECK(is_refused(with_values(v1::F32, {65'537}, std::vector<double>(65'537)), "carry 65537 values: at most 65536"));
}

TEST_CASE("values that an element type cannot hold are refused", "[cluster]") {
  CHECK(check_source_task(with_values(v1::U8, {2}, {0, 255})));
  CHECK(check_source_task(with_values(v1::I32, {2}, {-2147483648.0, 2147483647.0})));
  CHECK(check_source_task(with_values(v1::F32, {2}, {1e-50, std::numeric_limits<double>::infinity()})));
  CHECK(is_refused(with_values(v1::U8, {1}, {256}), "is U8 and has the value 256"));
  CHECK(is_refused(with_values(v1::U8, {1}, {-1}), "is U8"));
  CHECK(is_refused(with_values(v1::I32, {1}, {0.5}), "is I32 and has the value 0.5"));
  CHECK(is_refused(with_values(v1::I32, {1}, {2147483648.0}), "is I32"));
  CHECK(is_refused(with_values(v1::I64, {1}, {1e19}), "is I64"));
  CHECK(is_refused(with_values(v1::I64, {1}, {std::numeric_limits<double>::quiet_NaN()}), "is I64"));
  CHECK(is_refused(with_values(v1::F32, {1}, {1e300}), "is F32"));
  CHECK(check_source_task(with_values(v1::F16, {3}, {65504, -0.1, -std::numeric_limits<double>::infinity()})));
  CHECK(check_source_task(with_values(v1::BF16, {2}, {3e38, std::numeric_limits<double>::quiet_NaN()})));
  CHECK(is_refused(with_values(v1::F16, {1}, {65505}), "is F16 and has the value 65505"));
  CHECK(is_refused(with_values(v1::BF16, {1}, {3.4e38}), "is BF16"));
}

TEST_CASE("a tensor is a reference or values, and an output is neither", "[cluster]") {
  auto task = with_values(v1::F32, {1}, {1});
  task.mutable_arguments(0)->mutable_in()->mutable_ref()->set_id(1);
  CHECK(is_refused(task, "a reference beside a shape or values"));
  task = kernel();
  auto& out = *task.add_arguments()->mutable_out();
  out.set_dtype(v1::F32);
  out.add_shape(1);
  CHECK(check_source_task(task));
  out.add_values(1);
  CHECK(is_refused(task, "argument 0 has values: it is made for the kernel"));
  out.mutable_ref()->set_id(1);
  CHECK(is_refused(task, "in_out reads and writes"));
}

TEST_CASE("a host device gives up on source, as does a node that takes none, and a lease without a device",
          "[cluster]") {
  auto cluster = embed_all(true);
  const auto host = cluster.submit<v1::SourceResult>(SourceTask::type, kernel(), {.gpus = 0.5}).get();
  REQUIRE_FALSE(host);
  CHECK(host.error() == Error{Errc::unsupported, "kernel f is CUDA C++, which runs on CUDA devices only"});
  CHECK(host.error().remedy() == Remedy::give_up);
  // A device is what the type needs when nobody says otherwise.
  CHECK(cluster.submit<v1::SourceResult>(SourceTask::type, kernel()).get().error().code() == Errc::unsupported);
  auto wrong = kernel();
  wrong.clear_kernel();
  CHECK(cluster.submit<v1::SourceResult>(SourceTask::type, wrong).get().error().code() == Errc::invalid_argument);
  auto none = embed_all(false);
  const auto refused = none.submit<v1::SourceResult>(SourceTask::type, kernel()).get();
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == Error{Errc::unsupported, "kernel f is not compiled: this node takes no source (--no-jit)"});
  CHECK(refused.error().remedy() == Remedy::give_up);
}

TEST_CASE("a registry of a program's own takes the task when it is told to", "[cluster]") {
  TypeRegistry registry;
  CHECK_FALSE(registry.find_task(SourceTask::type));
  define_source_task(registry);
  REQUIRE(registry.find_task(SourceTask::type));
  CHECK((*registry.find_task(SourceTask::type))->needs == Needs{.gpus = 1});
  CHECK(registry.check());
}

TEST_CASE("source of clients includes the compiler's own headers, and no files of the node", "[source]") {
  const auto check = [](const std::string& source, const std::string& option = {}) {
    v1::SourceTask task;
    task.set_source(source);
    if (!option.empty())
      task.add_options(option);
    const auto checked = check_foreign_source(task);
    CHECK((checked || checked.error().code() == Errc::permission_denied));
    return checked.has_value();
  };
  CHECK(check("__global__ void k(float* x) { x[0] = 1; } // includes nothing"));
  CHECK(check("const char* rule = \"#\\n\";"));
  CHECK(check("#include <cuda_fp16.h>\n#  include /* of CUDA */ <cuda/std/limits>\n", "-DN=3"));
  for (const std::string source :
       {"#include \"/proc/self/environ\"", "#include \"node.key\"", "#include </proc/self/cmdline>",
        "#include <../node.key>", "#define F \"node.key\"\n#include F", "#inc\\\nlude \"node.key\"",
        "#inc\\ \nlude \"node.key\"", "%:include \"node.key\"", "#/* \n */include \"node.key\"",
        "# /**/ include_next <node.key>", "int a[] = {\n#embed <node.key>\n};", "?\?=include \"node.key\"",
        "#inc?\?/\nlude \"node.key\"", "#if __has_include(<a.h>)\n#endif", "#include<x", "#import \"node.key\"",
        "#\\u0069nclude \"node.key\""})
    CHECK_FALSE(check(source));
  CHECK_FALSE(check("", "-I/etc"));
  CHECK_FALSE(check("", "--include-path=/etc"));
}
