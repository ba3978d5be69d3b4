// gpu_verify: what this library promises about CUDA devices, measured on one beside the bare driver.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gpu/lab.hpp>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <exception>
#include <iostream>
#include <optional>
#include <type_traits>

using namespace gpuactors;
using namespace gpuactors::gpu;

namespace {

constexpr int no_gpu = 77;

constexpr auto usage = R"(usage: gpu_verify [--json FILE] [--only NAME] [--smoke]
       gpu_verify --add FILE [--outcome NAME=CODE[:TEXT]]...

Measures the first visible CUDA device and prints a row for each promise. Changes none of the device's settings.

  --json FILE          write the rows as JSON too, after each row
  --only NAME          only the measurement of that name (groups, sm_ids, confined, fractions, neighbour, quota, copies,
                       products, contexts, launches, source, lending, shared, peers, rounding, leavings, overhead,
                       limits, unloading, faults, nvml)
  --smoke              small sizes, nothing judged: to see that this program works
  --add FILE           measures nothing: adds rows to a table that --json has written
  --outcome NAME=CODE[:TEXT]  a row for a program that ran, by its exit code; "skip" if it is not here

exit code: 0 all targets of the table met, 1 some not, or the GPU cannot be used, 2 bad usage, 77 no GPU
)";

struct Options {
  std::string json;
  std::string only;
  std::string add;
  std::vector<std::string> outcomes;
  std::string child;
  bool smoke = false;
};

/// @returns whether the arguments make sense.
bool read_arguments(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--smoke") {
      options.smoke = true;
      continue;
    }
    if (++i == argc)
      return false;
    if (name == "--json")
      options.json = argv[i];
    else if (name == "--only")
      options.only = argv[i];
    else if (name == "--add")
      options.add = argv[i];
    else if (name == "--outcome" && std::strchr(argv[i], '=') != nullptr)
      options.outcomes.emplace_back(argv[i]);
    else if (name == "--child")
      options.child = argv[i];
    else
      return false;
  }
  return options.outcomes.empty() || !options.add.empty();
}

/// Whether there is nothing to verify on, and nothing wrong with that. What else keeps CUDA from starting is an error.
bool has_no_gpu() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return true;
  const auto find = reinterpret_cast<PFN_cuGetProcAddress_v12000>(dlsym(library, "cuGetProcAddress_v2"));
  cuda::Driver driver;
  const auto resolve = [&](auto& function, const char* name, int version) {
    void* found = nullptr;
    auto status = CU_GET_PROC_ADDRESS_SUCCESS;
    if (find(name, &found, version, CU_GET_PROC_ADDRESS_DEFAULT, &status) == CUDA_SUCCESS)
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    return function != nullptr;
  };
  if (find == nullptr || !resolve(driver.init, "cuInit", 2000)
      || !resolve(driver.device_get_count, "cuDeviceGetCount", 2000))
    return false;
  int count = -1;
  auto answer = driver.init(0);
  if (answer == CUDA_SUCCESS)
    answer = driver.device_get_count(&count);
  return answer == CUDA_ERROR_NO_DEVICE || (answer == CUDA_SUCCESS && count == 0);
}

void describe(Lab& lab) {
  const auto& info = lab.device->info();
  std::time_t now = std::time(nullptr);
  char date[32] = {};
  (void)std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  lab.report.about() = {{"date", date},
                        {"name", info.name},
                        {"accelerator_type", info.accelerator_type},
                        {"uuid", info.uuid},
                        {"sms", info.units},
                        {"memory_bytes", info.memory_bytes},
                        {"driver", lab.driver.version},
                        {"built_for", CUDA_VERSION},
                        {"smoke", lab.smoke}};
  fmt::print("{} ({}), {} SMs, driver for CUDA {}.{}, {}\n", info.name, info.uuid, info.units,
             lab.driver.version / 1000, lab.driver.version % 1000 / 10, date);
}

/// What other programs found, by their exit codes.
void add_outcomes(Report& report, const std::vector<std::string>& outcomes) {
  for (const auto& outcome : outcomes) {
    const auto at = outcome.find('=');
    const auto colon = std::min(outcome.find(':', at), outcome.size());
    const auto code = outcome.substr(at + 1, colon - at - 1);
    const auto text = outcome.substr(std::min(colon + 1, outcome.size()));
    if (code == "skip")
      report.skip(outcome.substr(0, at), "its program is not here");
    else
      report.judge(outcome.substr(0, at), code == "0", fmt::format("exit code {}: {}", code, text), "exit code 0");
  }
}

void run_all(Lab& lab, const std::string& only) {
  struct Measurement {
    const char* name;
    void (*run)(Lab&);
  };
  constexpr Measurement all[] = {
      {"groups", check_groups},         {"sm_ids", check_sm_ids},         {"confined", check_confinement},
      {"fractions", measure_fractions}, {"neighbour", measure_neighbour}, {"quota", check_quota},
      {"copies", measure_copies},       {"products", measure_products},   {"contexts", measure_costs},
      {"launches", measure_launches},   {"source", check_source},         {"lending", check_lending},
      {"shared", check_sharing},        {"peers", measure_peers},         {"rounding", check_rounding},
      {"leavings", check_leavings},     {"overhead", measure_overhead},   {"limits", check_launch_limits},
      {"unloading", check_unloading},   {"faults", check_faults},         {"nvml", check_management},
  };
  for (const auto& one : all) {
    if (!only.empty() && only != one.name)
      continue;
    try {
      one.run(lab);
    } catch (const Trouble& trouble) {
      lab.report.fail(one.name, trouble.text);
    } catch (const std::exception& error) {
      lab.report.fail(one.name, fmt::format("it threw: {}", error.what()));
    }
  }
}

/// Prints how many rows there are of each kind. @returns the exit code.
int sum_up(const Report& report, const std::string& file) {
  const auto failed = report.count(Verdict::fail);
  fmt::print("{} passed, {} failed, {} stated, {} skipped\n", report.count(Verdict::pass), failed,
             report.count(Verdict::info), report.count(Verdict::skip));
  if (!report.is_written()) {
    std::cerr << "gpu_verify: " << file << " could not be written\n";
    return 1;
  }
  return failed == 0 ? 0 : 1;
}

int add_to_table(const Options& options) {
  auto report = Report::read(options.add);
  if (!report) {
    std::cerr << "gpu_verify: " << options.add << " is no table of this program\n";
    return 2;
  }
  add_outcomes(*report, options.outcomes);
  return options.outcomes.empty() ? sum_up(*report, options.add) : report->is_written() ? 0 : 1;
}

int verify(const Options& options) {
  auto device = find_device();
  if (!device) {
    const bool none = has_no_gpu();
    std::cerr << "gpu_verify: " << (none ? "no GPU to verify on: " : "the GPU cannot be used: ")
              << device.error().message() << '\n';
    return none ? no_gpu : 1;
  }
  auto driver = cuda::load_driver();
  auto cublas = cuda::load_cublas();
  if (!driver || !cublas) {
    std::cerr << "gpu_verify: " << (driver ? cublas.error() : driver.error()).message() << '\n';
    return 1;
  }
  Lab lab{*device, *driver, *cublas, Report{!options.smoke, options.json}, options.smoke};
  describe(lab);
  lab.first_open_ms = milliseconds([&] { (void)Context::open(lab.device, {}); });
  run_all(lab, options.only);
  return sum_up(lab.report, options.json);
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_arguments(argc, argv, options)) {
    std::cerr << usage;
    return 2;
  }
  if (!options.add.empty())
    return add_to_table(options);
  return options.child.empty() ? verify(options) : run_child(options.child);
}
