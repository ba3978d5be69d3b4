// gpu_verify: what this library promises about CUDA devices, measured on one beside the bare driver.
#include <fmt/format.h>
#include <gpu/lab.hpp>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>

using namespace gpuactors;
using namespace gpuactors::gpu;

namespace {

constexpr int no_gpu = 77;

constexpr auto usage = R"(usage: gpu_verify [--json FILE] [--only NAME] [--outcome NAME=CODE[:TEXT]]... [--smoke]

Measures the first visible CUDA device and prints a row for each promise. Changes none of the device's settings.

  --json FILE          write the rows as JSON too
  --only NAME          only the measurement of that name (groups, sm_ids, confined, fractions, neighbour, quota, copies,
                       products, contexts, launches, source, faults, nvml)
  --outcome NAME=CODE[:TEXT]  a row for a program that ran before, by its exit code
  --smoke              small sizes, nothing judged: to see that this program works

exit code: 0 all targets met, 1 some not, 2 bad usage, 77 no GPU
)";

struct Options {
  std::string json;
  std::string only;
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
    else if (name == "--outcome" && std::strchr(argv[i], '=') != nullptr)
      options.outcomes.emplace_back(argv[i]);
    else if (name == "--child")
      options.child = argv[i];
    else
      return false;
  }
  return true;
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
void add_outcomes(Lab& lab, const std::vector<std::string>& outcomes) {
  for (const auto& outcome : outcomes) {
    const auto at = outcome.find('=');
    const auto colon = std::min(outcome.find(':', at), outcome.size());
    const auto code = outcome.substr(at + 1, colon - at - 1);
    const auto text = outcome.substr(std::min(colon + 1, outcome.size()));
    if (code == "skip")
      lab.report.skip(outcome.substr(0, at), "its program is not here");
    else
      lab.report.judge(outcome.substr(0, at), code == "0", fmt::format("exit code {}: {}", code, text), "exit code 0");
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
      {"launches", measure_launches},   {"source", check_source},         {"faults", check_faults},
      {"nvml", check_management},
  };
  for (const auto& one : all) {
    if (!only.empty() && only != one.name)
      continue;
    try {
      one.run(lab);
    } catch (const Trouble& trouble) {
      lab.report.fail(one.name, trouble.text);
    }
  }
}

int verify(const Options& options) {
  auto device = find_device();
  if (!device) {
    std::cerr << "gpu_verify: no GPU to verify on: " << device.error().message() << '\n';
    return no_gpu;
  }
  auto driver = cuda::load_driver();
  auto cublas = cuda::load_cublas();
  if (!driver || !cublas) {
    std::cerr << "gpu_verify: " << (driver ? cublas.error() : driver.error()).message() << '\n';
    return 1;
  }
  Lab lab{*device, *driver, *cublas, Report{!options.smoke}, options.smoke};
  describe(lab);
  lab.first_open_ms = milliseconds([&] { (void)Context::open(lab.device, {}); });
  add_outcomes(lab, options.outcomes);
  run_all(lab, options.only);
  const auto failed = lab.report.count(Verdict::fail);
  fmt::print("{} passed, {} failed, {} stated, {} skipped\n", lab.report.count(Verdict::pass), failed,
             lab.report.count(Verdict::info), lab.report.count(Verdict::skip));
  if (!options.json.empty()) {
    std::ofstream file{options.json};
    file << lab.report.to_json().dump(2) << '\n';
    if (!file.flush()) {
      std::cerr << "gpu_verify: " << options.json << " could not be written\n";
      return 1;
    }
  }
  return failed == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_arguments(argc, argv, options)) {
    std::cerr << usage;
    return 2;
  }
  return options.child.empty() ? verify(options) : run_child(options.child);
}
