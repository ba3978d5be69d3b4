// Reading the tour's command line.
#include "options.hpp"

#include "tour.hpp"

#include <apps/cli/cluster_options.hpp>
#include <apps/cli/usage.hpp>

#include <algorithm>
#include <iostream>

namespace tour {

using gpuactors::Errc;
using gpuactors::Result;

namespace {

constexpr auto about =
    R"(Runs what gpuactors is for, as programs that a user would write, on the devices of this machine; T4, T9 and
T11 also in clusters of processes of this program, on a free port of 127.0.0.1, which end with it. Every result is
checked against a float64 computation on the CPU, or against the broker's own log of decisions. Prints one table
and ends with 0 only if every check held; what failed is said below the table.)";

std::string footer() {
  std::string text = "programs:\n";
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

Result<void> check_programs(const std::vector<std::string>& only) {
  std::vector<std::string> known;
  for (const auto& program : programs())
    known.emplace_back(program.id);
  for (const auto& id : only)
    if (std::find(known.begin(), known.end(), id) == known.end())
      return gpuactors::fail(Errc::invalid_argument, fmt::format("--only: there is no program \"{}\"; there are {}", id,
                                                                 fmt::join(known, ", ")));
  return {};
}

} // namespace

Result<std::optional<TourOptions>> parse_options(int argc, const char* const* argv) {
  CLI::App parser{about, "gpuactors-tour"};
  parser.footer(footer());
  TourOptions options;
  parser.add_option("--only", options.only, "Run only this one; may be repeated, or be a list such as T1,T6")
      ->type_name("PROGRAM")
      ->delimiter(',')
      ->allow_extra_args(false);
  parser.add_flag(
      "--json", options.json,
      "Print an array of objects, one a row: program, title, device, result, error, tolerance, seconds, ok, "
      "failures");
  parser.add_flag("--full", options.full, "Sizes above 3000 too");
  gpuactors::cli::ConnectionTexts texts;
  texts.broker =
      "Run on a cluster that is there, also by GPUACTORS_BROKER, whose nodes have this program as --program. "
      "Programs that need their own nodes or processes start those";
  gpuactors::cli::add_embedding(parser, options.cluster.embed);
  gpuactors::cli::add_connection(parser, options.cluster.connect, texts);
  try {
    parser.parse(argc, argv);
  } catch (const CLI::Success& wish) { // --help
    parser.exit(wish, std::cout, std::cerr);
    return std::optional<TourOptions>{};
  } catch (const CLI::ParseError& error) {
    return gpuactors::fail(Errc::invalid_argument, gpuactors::cli::explain(parser, error));
  }
  GPUACTORS_TRY(check_programs(options.only));
  GPUACTORS_TRY(options.cluster.check());
  return std::optional{std::move(options)};
}

} // namespace tour
