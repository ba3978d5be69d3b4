// Compiling kernels at run time, for real: NVRTC needs no GPU. And the cache of what it made.
#include <gpuactors/base/limits.hpp>
#include <gpuactors/device/cuda/runtime_kernels.hpp>

#include <support/catch.hpp>
#include <support/eventually.hpp>
#include <support/temporary_folder.hpp>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

using namespace gpuactors;
using namespace gpuactors::cuda;

namespace {

/// Null, once printed why, where there is no NVRTC.
const Compiler* compiler() {
  const auto loaded = Compiler::get();
  if (!loaded) {
    CHECK(loaded.error().code() == Errc::unsupported);
    std::cerr << "skipped: " << loaded.error().message() << '\n';
    return nullptr;
  }
  return *loaded;
}

KernelSource scale() {
  return {"template <class T> __global__ void scale(T* x, T by, unsigned n) {\n"
          "  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
          "  if (i < n) x[i] *= by * FACTOR;\n"
          "}\n",
          "scale<float>",
          {"-DFACTOR=2"}};
}

constexpr auto hopper = "--gpu-architecture=sm_90";

/// A compiler that counts, so that the cache is tested without one.
struct Counting {
  int calls = 0;
  std::string code = std::string("machine\0code", 12);

  Result<KernelCode> find(CodeCache& cache, const KernelSource& source, const std::string& architecture = hopper,
                          const std::string& version = "13.0") {
    GPUACTORS_LET(found, cache.find(source, architecture, version, [this]() -> Result<KernelCode> {
      ++calls;
      return KernelCode{"entry", code};
    }));
    return *found;
  }
};

std::size_t files_in(const std::filesystem::path& folder) {
  std::error_code error;
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{folder, error}, {}));
}

} // namespace

TEST_CASE("a template becomes machine code with the name that the driver looks for") {
  const auto* nvrtc = compiler();
  if (nvrtc == nullptr)
    return;
  const auto code = nvrtc->compile(scale(), hopper);
  if (!code)
    FAIL(code.error().message());
  CHECK(code->entry.find("scale") != std::string::npos);
  CHECK(code->entry != "scale<float>");
  CHECK(code->code.substr(0, 4)
        == "\x7f"
           "ELF");
  CHECK(code->code.find(code->entry) != std::string::npos);
}

TEST_CASE("the language is C++17 unless an option says otherwise") {
  const auto* nvrtc = compiler();
  if (nvrtc == nullptr)
    return;
  KernelSource source{"extern \"C\" __global__ void standard(long* x) { *x = __cplusplus; }\n"
                      "static_assert(__cplusplus == WANTED);\n",
                      "standard",
                      {"-DWANTED=201703L"}};
  CHECK(nvrtc->compile(source, hopper));
  source.options = {"-DWANTED=202002L", "-std=c++20"};
  CHECK(nvrtc->compile(source, hopper));
}

TEST_CASE("a chip newer than the compiler gets PTX, one that is too old a sentence") {
  const auto* nvrtc = compiler();
  if (nvrtc == nullptr)
    return;
  CHECK(*nvrtc->architecture_for(90) == hopper);
  const auto newer = nvrtc->architecture_for(999);
  REQUIRE(newer);
  CHECK(newer->find("--gpu-architecture=compute_") == 0);
  const auto code = nvrtc->compile(scale(), *newer);
  REQUIRE(code);
  CHECK(code->code.find(".entry " + code->entry) != std::string::npos);
  const auto older = nvrtc->architecture_for(20);
  REQUIRE_FALSE(older);
  CHECK(older.error().message().find("makes no code for chips of compute capability 2.0") != std::string::npos);
}

TEST_CASE("what does not compile comes back with the compiler's lines") {
  const auto* nvrtc = compiler();
  if (nvrtc == nullptr)
    return;
  auto wrong = scale();
  wrong.source += "__global__ void broken() { undeclared = 1; }\n";
  const auto failed = nvrtc->compile(wrong, hopper);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code() == Errc::invalid_argument);
  CHECK(failed.error().message().find("kernel scale<float> does not compile:\nkernel.cu(5): error: ")
        != std::string::npos);
  CHECK(failed.error().message().find("\"undeclared\" is undefined") != std::string::npos);
  auto option = scale();
  option.options.emplace_back("--no-such-option");
  CHECK(nvrtc->compile(option, hopper).error().code() == Errc::invalid_argument);
  auto name = scale();
  name.name = "other<float>";
  CHECK(nvrtc->compile(name, hopper).error().code() == Errc::invalid_argument);
}

TEST_CASE("the same kernel is compiled once, and each difference counts") {
  CodeCache cache{{}};
  Counting counting;
  for (int i = 0; i < 3; ++i)
    CHECK(counting.find(cache, scale())->code == counting.code);
  CHECK(counting.calls == 1);
  auto source = scale();
  source.source += '\n';
  auto name = scale();
  name.name = "scale<double>";
  auto option = scale();
  option.options = {"-DFACTOR=3"};
  auto split = scale();
  split.options = {"-DFACTOR", "=2"};
  for (const auto& other : {source, name, option, split})
    REQUIRE(counting.find(cache, other));
  REQUIRE(counting.find(cache, scale(), "--gpu-architecture=sm_80"));
  REQUIRE(counting.find(cache, scale(), hopper, "13.1"));
  CHECK(counting.calls == 7);
}

TEST_CASE("another process finds on disk what was compiled, and only its owner may look there") {
  const test::TemporaryFolder folder;
  const auto kernels = folder / "cache/kernels";
  Counting counting;
  CodeCache first{kernels};
  REQUIRE(counting.find(first, scale()));
  CHECK(files_in(kernels) == 1);
  CHECK((std::filesystem::status(kernels).permissions() & std::filesystem::perms::all)
        == std::filesystem::perms::owner_all);
  CodeCache second{kernels};
  const auto found = counting.find(second, scale());
  REQUIRE(found);
  CHECK(found->code == counting.code);
  CHECK(found->entry == "entry");
  CHECK(counting.calls == 1);
}

TEST_CASE("source that includes files, or may, is compiled each time: they may have changed") {
  const test::TemporaryFolder folder;
  CodeCache cache{folder.path()};
  const auto with = [](std::string line, std::vector<std::string> options) {
    auto source = scale();
    source.source = std::move(line) + source.source;
    source.options.insert(source.options.end(), options.begin(), options.end());
    return source;
  };
  for (const auto& source :
       {with("#include \"tile.h\"\n", {}), with("#  inc\\\nlude <tile.h>\n", {}),
        with("%:inc\\\r\nlude <tile.h>\n", {}), with("", {"-include", "tile.h"}), with("", {"--include-path=tiles"}),
        with("", {"-Itiles"}), with("", {"--options-file", "options"})}) {
    Counting counting;
    REQUIRE(counting.find(cache, source));
    REQUIRE(counting.find(cache, source));
    CHECK(counting.calls == 2);
  }
  CHECK(files_in(folder.path()) == 0);
}

TEST_CASE("a file that was damaged, cut off or is of something else is not taken") {
  const test::TemporaryFolder folder;
  Counting counting;
  {
    CodeCache cache{folder.path()};
    REQUIRE(counting.find(cache, scale()));
  }
  const auto path = std::filesystem::directory_iterator {
    folder.path()
    } -> path();
  std::ifstream in{path, std::ios::binary};
  const std::string good{std::istreambuf_iterator<char>{in}, {}};
  auto damaged = good;
  damaged[good.find("machine")] = 'M';
  auto other = good;
  other.replace(good.find("FACTOR=2"), 8, "FACTOR=3");
  for (const auto& bad :
       {damaged, other, good.substr(0, good.size() / 2), std::string{}, std::string{"99999999999999:"}}) {
    std::ofstream{path, std::ios::binary} << bad;
    const auto before = counting.calls;
    CodeCache cache{folder.path()};
    REQUIRE(counting.find(cache, scale()));
    CHECK(counting.calls == before + 1);
    // And it is good again.
    CodeCache next{folder.path()};
    REQUIRE(counting.find(next, scale()));
    CHECK(counting.calls == before + 1);
  }
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a folder that cannot be written costs nothing but the next compilation") {
  const test::TemporaryFolder folder;
  std::ofstream{folder / "file"} << "no folder";
  CodeCache cache{folder.path() / "file" / "kernels"};
  Counting counting;
  CHECK(counting.find(cache, scale()));
  CHECK(counting.calls == 1);
}

TEST_CASE("a cache keeps no more in memory than it may, and what was asked for last") {
  Counting counting;
  counting.code = std::string(1000, 'c');
  const auto numbered = [](int number) {
    auto source = scale();
    source.source = std::to_string(number);
    return source;
  };
  // Each has a little more than 1000 B.
  CodeCache cache{{}, {2500, 10}};
  for (const auto number : {1, 2, 1, 3, 1})
    REQUIRE(counting.find(cache, numbered(number)));
  CHECK(counting.calls == 3);
  REQUIRE(counting.find(cache, numbered(2)));
  CHECK(counting.calls == 4);
  CodeCache small{{}, {10, 10}};
  CHECK(counting.find(small, numbered(1))->code == counting.code);
  CHECK(counting.find(small, numbered(1))->code == counting.code);
  CHECK(counting.calls == 6);
}

TEST_CASE("a cache keeps no more files than it may, and touches no others") {
  const test::TemporaryFolder folder;
  for (const auto* other : {"notes", "0123456789abcdef0", "ABCDEF0123456789"})
    std::ofstream{folder / other} << "not ours";
  Counting counting;
  CodeCache cache{folder.path(), {1U << 20, 8}};
  for (int i = 0; i < 20; ++i) {
    auto source = scale();
    source.source += std::to_string(i);
    REQUIRE(counting.find(cache, source));
    CHECK(files_in(folder.path()) <= 3 + 8);
  }
  CHECK(files_in(folder.path()) >= 3 + 7);
  CHECK(std::filesystem::exists(folder / "notes"));
}

TEST_CASE("a log without end is cut off") {
  const auto* nvrtc = compiler();
  if (nvrtc == nullptr)
    return;
  auto wrong = scale();
  wrong.source += "__global__ void broken() {\n";
  for (int i = 0; i < 90; ++i)
    wrong.source += "  " + std::string(500, 'x') + std::to_string(i) + " = 1;\n";
  wrong.source += "}\n";
  const auto failed = nvrtc->compile(wrong, hopper);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().message().size() < limits::compiler_log_bytes + 200);
  CHECK(failed.error().message().find("B more") != std::string::npos);
}

TEST_CASE("kernels that nobody holds are unloaded, oldest first; those that somebody holds stay") {
  if (compiler() == nullptr)
    return;
  static std::atomic<int> loaded;
  static int last;
  loaded = 0;
  last = 0;
  Driver driver;
  driver.thread_exchange_capture_mode = [](CUstreamCaptureMode*) { return CUDA_SUCCESS; };
  driver.library_load_data = [](CUlibrary* library, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                                void**, unsigned) {
    ++loaded;
    *library = reinterpret_cast<CUlibrary>(static_cast<std::uintptr_t>(++last)); // NOLINT(*-int-to-ptr): a number
    return CUDA_SUCCESS;
  };
  driver.library_unload = [](CUlibrary) {
    --loaded;
    return CUDA_SUCCESS;
  };
  driver.library_get_kernel = [](CUkernel* kernel, CUlibrary library, const char*) {
    *kernel = reinterpret_cast<CUkernel>(library);
    return CUDA_SUCCESS;
  };
  const test::TemporaryFolder folder;
  ::setenv("GPUACTORS_KERNEL_CACHE", "", 1);
  RuntimeKernels kernels{driver, 2};
  const auto find = [&](const char* name) {
    KernelSource source{"extern \"C\" __global__ void a() {}\nextern \"C\" __global__ void b() {}\n"
                        "extern \"C\" __global__ void c() {}\n",
                        name};
    auto kernel = kernels.find(source, 90, 0);
    REQUIRE(kernel);
    return *kernel;
  };
  {
    const auto a = find("a");
    CHECK_FALSE(a.loaded().arguments);
    CHECK(find("a").loaded().native == a.loaded().native);
    CHECK(loaded == 1);
    find("b");
    find("c");
    CHECK(test::eventually([] { return loaded == 2; }));
    // It went when c came, as a is held.
    const auto before = last;
    find("a");
    find("c");
    CHECK(last == before);
    const auto b = find("b");
    CHECK(last == before + 1);
    CHECK(test::eventually([] { return loaded == 2; }));
    const auto c = find("c");
    // All of them are held.
    CHECK(loaded == 3);
  }
  find("a");
  CHECK(test::eventually([] { return loaded == 2; }));
}

TEST_CASE("errors are not kept") {
  CodeCache cache{{}};
  const auto failed =
      cache.find(scale(), hopper, "13.0", []() -> Result<KernelCode> { return fail(Errc::invalid_argument, "no"); });
  CHECK_FALSE(failed);
  Counting counting;
  CHECK(counting.find(cache, scale()));
}

TEST_CASE("threads that want the same kernel all get it") {
  const test::TemporaryFolder folder;
  CodeCache cache{folder.path()};
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Counting counting;
      for (int k = 0; k < 50; ++k) {
        auto source = scale();
        source.source += std::to_string(k);
        const auto code = counting.find(cache, source);
        right += code && code->code == counting.code ? 1 : 0;
      }
    });
  for (auto& thread : threads)
    thread.join();
  CHECK(right == 200);
  CHECK(files_in(folder.path()) == 50);
}
