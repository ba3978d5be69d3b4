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

namespace gpuactors {

/// The commit; made when this is built (GpuactorsRevision.cmake).
extern const char* const revision;

} // namespace gpuactors

using namespace gpuactors;
using namespace gpuactors::gpu;

namespace {

constexpr int no_gpu = 77;

constexpr auto usage = R"(usage: gpu_verify [--json FILE] [--only NAME] [--smoke | --stated]
       gpu_verify --add FILE [--outcome NAME=CODE[:TEXT]]...
       gpu_verify --settled FILE
       gpu_verify --about [--json FILE]
       gpu_verify --list | --libraries

Measures the first visible CUDA device and prints a row for each promise. Changes none of the device's settings.

  --json FILE          write the rows as JSON too, after each row
  --only NAME          only the measurement of that name; the table of --json goes on, without what it had of it
  --smoke              small sizes, nothing judged: to see that this program works
  --stated             nothing judged: targets are not for the surroundings of this run
  --add FILE           measures nothing: adds rows to a table that --json has written
  --outcome NAME=CODE[:TEXT]  a row for a program that ran, by its exit code; "skip" if it cannot be run here, "late" if
                       there was no time for it (what the table has of it stays), "missed" if it ran and measured what
                       is not enough, "stated" if nothing says what would be enough
  --settled FILE       of the table in FILE the measurements and programs that have run, on the GPU and with the build
                       that the table is about
  --list               the names of the measurements
  --libraries          the files that CUDA's libraries are looked for in
  --about              the device alone; the table of --json is about it and this build from now on

exit code: 0 all targets of the table met, 1 some not, or the GPU cannot be used, 2 bad usage, 77 no GPU
)";

/// In the order in which they are taken: faults come late, for nobody knows what they leave.
struct Measurement {
  const char* name;
  void (*run)(Lab&);
};
// One in a line, so that a new one changes one.
// clang-format off
constexpr Measurement measurements[] = {
    {"groups", check_groups},
    {"events", check_events},
    {"sm_ids", check_sm_ids},
    {"confined", check_confinement},
    {"ending", check_ending},
    {"fractions", measure_fractions},
    {"neighbour", measure_neighbour},
    {"quota", check_quota},
    {"copies", measure_copies},
    {"products", measure_products},
    {"contexts", measure_costs},
    {"launches", measure_launches},
    {"notices", check_notices},
    {"fetch", measure_fetch},
    {"graphs", check_graphs},
    {"captures", check_captures},
    {"source", check_source},
    {"lending", check_lending},
    {"relatives", check_relatives},
    {"shared", check_sharing},
    {"peers", measure_peers},
    {"rounding", check_rounding},
    {"leavings", check_leavings},
    {"overhead", measure_overhead},
    {"limits", check_launch_limits},
    {"unloading", check_unloading},
    {"first_launches", check_first_launches},
    {"waits", check_waits},
    {"pinning", check_pinning},
    {"driver_waits", check_driver_waits},
    {"faults", check_faults},
    {"nvml", check_management},
};
// clang-format on

bool is_measurement(const std::string& name) {
  return std::any_of(std::begin(measurements), std::end(measurements),
                     [&name](const Measurement& one) { return name == one.name; });
}

struct Options {
  std::string json;
  std::string only;
  std::string add;
  std::string settled;
  std::vector<std::string> outcomes;
  std::string child;
  bool smoke = false;
  bool stated = false;
  bool list = false;
  bool libraries = false;
  bool about = false;
};

/// @returns whether the arguments make sense.
bool read_arguments(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    bool* const flag = name == "--smoke"       ? &options.smoke
                       : name == "--stated"    ? &options.stated
                       : name == "--list"      ? &options.list
                       : name == "--libraries" ? &options.libraries
                       : name == "--about"     ? &options.about
                                               : nullptr;
    if (flag != nullptr) {
      *flag = true;
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
    else if (name == "--settled")
      options.settled = argv[i];
    else if (name == "--outcome" && std::strchr(argv[i], '=') != nullptr)
      options.outcomes.emplace_back(argv[i]);
    else if (name == "--child")
      options.child = argv[i];
    else
      return false;
  }
  return (options.outcomes.empty() || !options.add.empty()) && (options.only.empty() || is_measurement(options.only));
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
  auto& about = lab.report.about();
  nlohmann::json now_about = {{"date", date},
                              {"name", info.name},
                              {"accelerator_type", info.accelerator_type},
                              {"uuid", info.uuid},
                              {"sms", info.units},
                              {"memory_bytes", info.memory_bytes},
                              {"driver", lab.driver.version},
                              {"built_for", CUDA_VERSION},
                              {"revision", revision},
                              {"smoke", lab.smoke}};
  // Parts of a table may come from several devices: then it says so.
  auto others = about.value("others", nlohmann::json::array());
  const auto other = about.value("uuid", info.uuid);
  if (other != info.uuid && std::find(others.begin(), others.end(), other) == others.end())
    others.push_back(other);
  if (!others.empty())
    now_about["others"] = others;
  about = std::move(now_about);
}

void print_about(Lab& lab) {
  const auto& info = lab.device->info();
  fmt::print("{} ({}), {} SMs, driver for CUDA {}.{}, {}\n", info.name, info.uuid, info.units,
             lab.driver.version / 1000, lab.driver.version % 1000 / 10, lab.report.about().value("date", ""));
}

/// What other programs found, by their exit codes.
void add_outcomes(Report& report, const std::vector<std::string>& outcomes) {
  for (const auto& outcome : outcomes) {
    const auto at = outcome.find('=');
    const auto colon = std::min(outcome.find(':', at), outcome.size());
    const auto code = outcome.substr(at + 1, colon - at - 1);
    const auto text = outcome.substr(std::min(colon + 1, outcome.size()));
    if (code == "skip")
      report.skip(outcome.substr(0, at), text.empty() ? "its program is not here" : text);
    else if (code == "late" && text.empty() && report.settled().contains(outcome.substr(0, at)))
      fmt::print("{:<20} stays as it is: no time left to run it again\n", outcome.substr(0, at));
    else if (code == "late")
      report.leave_open(outcome.substr(0, at), text.empty() ? "not run: no time left" : text);
    else if (code == "stated")
      report.state(outcome.substr(0, at), text);
    else if (code == "0")
      report.judge(outcome.substr(0, at), true, fmt::format("exit code 0: {}", text), "exit code 0");
    else if (code == "missed")
      report.judge(outcome.substr(0, at), false, text, "the bound of its row");
    else // whatever the sizes
      report.fail(outcome.substr(0, at), fmt::format("exit code {}: {}", code, text));
  }
}

void run_all(Lab& lab, const std::string& only) {
  for (const auto& one : measurements) {
    if (!only.empty() && only != one.name)
      continue;
    lab.report.begin(one.name);
    try {
      one.run(lab);
    } catch (const Trouble& trouble) {
      lab.report.fail(one.name, trouble.text);
    } catch (const std::exception& error) {
      lab.report.fail(one.name, fmt::format("it threw: {}", error.what()));
    }
  }
}

/// @returns the exit code.
int complain_unless_written(const Report& report, const std::string& file) {
  if (report.is_written())
    return 0;
  std::cerr << "gpu_verify: " << file << " could not be written\n";
  return 1;
}

/// The exit code for a table that is to be in a file.
int code_of(const Report& report, const std::string& file) {
  if (const auto code = complain_unless_written(report, file); code != 0)
    return code;
  return report.count(Verdict::fail) + report.count(Verdict::open) + report.count_others() == 0 ? 0 : 1;
}

/// Prints how many rows there are of each kind. @returns the exit code.
int sum_up(const Report& report, const std::string& file) {
  fmt::print("{} passed, {} failed, {} stated, {} skipped, {} not run\n", report.count(Verdict::pass),
             report.count(Verdict::fail), report.count(Verdict::info), report.count(Verdict::skip),
             report.count(Verdict::open));
  if (report.count_others() > 0)
    fmt::print("{} of them with another GPU or build: --open runs again what this build has of them\n",
               report.count_others());
  return code_of(report, file);
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

int print_settled(const std::string& file) {
  const auto report = Report::read(file);
  if (!report) {
    std::cerr << "gpu_verify: " << file << " is no table of this program\n";
    return 2;
  }
  for (const auto& name : report->settled())
    fmt::print("{}\n", name);
  return 0;
}

/// The GPU, or any of CUDA's libraries, cannot be used: a row too, where one was asked for. @returns the exit code.
int refuse(Report& report, const std::string& measurement, const std::string& why) {
  std::cerr << "gpu_verify: " << why << '\n';
  if (!measurement.empty())
    report.fail(measurement, why);
  return 1;
}

int verify(const Options& options) {
  // One measurement goes on with the table that others have begun.
  auto report = options.only.empty() && !options.about ? Report{true, options.json} : Report::read(options.json);
  if (!report) {
    std::cerr << "gpu_verify: " << options.json << " is no table of this program\n";
    return 2;
  }
  report->set_judging(!options.smoke && !options.stated);
  auto device = find_device();
  if (!device && has_no_gpu()) {
    std::cerr << "gpu_verify: no GPU to verify on: " << device.error().message() << '\n';
    return no_gpu;
  }
  if (!device)
    return refuse(*report, options.only, "the GPU cannot be used: " + device.error().message());
  auto driver = cuda::load_driver();
  auto cublas = cuda::load_cublas();
  if (!driver || !cublas)
    return refuse(*report, options.only, (driver ? cublas.error() : driver.error()).message());
  Lab lab{*device, *driver, *cublas, std::move(*report), options.smoke};
  describe(lab);
  if (options.only.empty())
    print_about(lab);
  if (options.about) {
    lab.report.begin("about"); // the GPU could not be used before
    lab.report.write();
    return complain_unless_written(lab.report, options.json);
  }
  lab.first_open_ms = milliseconds([&] {
    if (const auto first = Context::open(lab.device, {}); !first)
      lab.first_open_trouble = first.error().message();
  });
  run_all(lab, options.only);
  return options.only.empty() ? sum_up(lab.report, options.json) : code_of(lab.report, options.json);
}

int list(const Options& options) {
  if (options.libraries)
    fmt::print("libcuda.so.1\nlibcublas.so.{0}\nlibnvrtc.so.{0}\nlibnvidia-ml.so.1\n", CUDA_VERSION / 1000);
  for (const auto& one : measurements)
    if (options.list)
      fmt::print("{}\n", one.name);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  Options options;
  if (!read_arguments(argc, argv, options)) {
    std::cerr << usage;
    return 2;
  }
  if (options.list || options.libraries)
    return list(options);
  if (!options.settled.empty())
    return print_settled(options.settled);
  if (!options.add.empty())
    return add_to_table(options);
  return options.child.empty() ? verify(options) : run_child(options.child);
}
