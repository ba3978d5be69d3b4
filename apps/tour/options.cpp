// Reading the tour's command line.
#include "options.hpp"

#include "tour.hpp"

#include <algorithm>
#include <optional>

namespace tour {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

/// Adds the programs of "T6" or "T1,T6".
Result<void> add_programs(std::vector<std::string>& only, const std::string& list) {
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const auto end = std::min(list.find(',', begin), list.size());
    const auto id = list.substr(begin, end - begin);
    begin = end + 1;
    const auto& all = programs();
    if (std::none_of(all.begin(), all.end(), [&](const Program& program) { return program.id == id; })) {
      std::vector<std::string> known;
      known.reserve(all.size());
      for (const auto& program : all)
        known.emplace_back(program.id);
      return gpuactors::fail(Errc::invalid_argument, fmt::format("--only: there is no program \"{}\"; there are {}", id,
                                                                 fmt::join(known, ", ")));
    }
    only.push_back(id);
  }
  return {};
}

/// A value for an option that takes one; empty for others.
std::string_view example_of(std::string_view name) {
  if (name == "--only")
    return "T6";
  if (name == "--devices")
    return "host:2x4GiB";
  if (name == "--broker")
    return "127.0.0.1:7711";
  return name == "--certs" ? "/etc/gpuactors/certs" : "";
}

} // namespace

Result<TourOptions> parse_options(const std::vector<std::string>& arguments) {
  TourOptions options;
  gpuactors::ConnectOptions connection;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto name = arguments[i];
    std::optional<std::string> value;
    if (const auto equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name = name.substr(0, equals);
    }
    const auto example = example_of(name);
    const auto takes_value = !example.empty();
    if (takes_value && !value) {
      if (++i == arguments.size())
        return gpuactors::fail(Errc::invalid_argument, fmt::format("{} needs a value, such as {}", name, example));
      value = arguments[i];
    }
    const auto known =
        takes_value
        || (!value
            && (name == "--json" || name == "--full" || name == "--help" || name == "-h" || name == "--insecure"));
    if (!known)
      return gpuactors::fail(Errc::invalid_argument,
                             fmt::format("\"{}\" is not understood; there are --only PROGRAM, --devices SPEC, --broker "
                                         "HOST:PORT, --certs DIR, --insecure, --json, --full and --help",
                                         arguments[i]));
    if (name == "--only")
      GPUACTORS_TRY(add_programs(options.only, *value));
    else if (name == "--devices")
      options.devices += (options.devices.empty() ? "" : " ") + *value;
    else if (name == "--broker")
      connection.broker = *value;
    else if (name == "--certs")
      connection.certificates = *value;
    connection.insecure = connection.insecure || name == "--insecure";
    options.json = options.json || name == "--json";
    options.full = options.full || name == "--full";
    options.help = options.help || name == "--help" || name == "-h";
  }
  if (!connection.broker.empty())
    options.cluster = std::move(connection);
  if (options.cluster && !options.devices.empty())
    return gpuactors::fail(Errc::invalid_argument, "--devices is for embedded clusters: with --broker the nodes say "
                                                   "what they have");
  return options;
}

std::string help_text() {
  std::string text = R"(usage: gpuactors-tour [--only PROGRAM]... [--devices SPEC]... [--broker HOST:PORT] [--json]
                      [--full]

Runs what gpuactors is for, as programs that a user would write, on the devices of this machine; T4, T9 and T11 also
in clusters of processes of this program, on a free port of 127.0.0.1, which end with it. Every result is
checked against a float64 computation on the CPU, or against the broker's own log of decisions. Prints one table
and ends with 0 only if every check held; what failed is said below the table.

options:
  --only PROGRAM   run only this one; may be repeated, or be a list such as T1,T6
  --devices SPEC   devices to run on; without it CUDA if there is any, else one host device (this machine's cores)
                     cuda                         all CUDA devices that are visible
                     cuda:GPU-uuid,...            these
                     host:COUNT[xMEMORY][@TYPE]   so many host devices, for example host:2x4GiB
  --broker HOST:PORT   run on a cluster that is there, whose nodes have this program as --program; --certs DIR or
                   --insecure as for gpuactors. Programs that need their own nodes or processes start those
  --json           print an array of objects, one a row: program, title, device, result, error, tolerance,
                   seconds, ok, failures
  --full           sizes above 3000 too
  --help           this text

programs:
)";
  for (const auto& program : programs())
    text += fmt::format("  {:<4} {}\n", program.id, program.title);
  return text + R"(
examples:
  gpuactors-tour --only T6                      three actors of half a device on two devices
  gpuactors-tour --only T1,T18 --full           large matrices
  gpuactors-tour --only T4 --devices host:2     an actor and a task on two host devices
  gpuactors up --devices host:2x2GiB --program $(which gpuactors-tour) &
  gpuactors-tour --broker 127.0.0.1:7711        the same programs on that cluster
)";
}

} // namespace tour
