// gpuactors certs: makes the authority of a cluster and the certificates of its machines.
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"
#include "table.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

struct CertsArguments {
  std::string certs;
  std::string days;
  std::string name;
  std::vector<std::string> hosts;
  std::string out;
  bool json = false;
};

Result<CertificateFolder> open_folder(const CertsArguments& arguments) {
  if (!arguments.certs.empty())
    return CertificateFolder{arguments.certs};
  GPUACTORS_LET(path, CertificateFolder::default_path());
  return CertificateFolder{path};
}

Result<std::int64_t> parse_days(const CertsArguments& arguments) {
  return parse_integer("--days", arguments.days, 1, limits::authority_days_most);
}

// -- init -----------------------------------------------------------------------------------------

Result<void> run_init(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(days, parse_days(arguments));
  GPUACTORS_LET(files, folder.init(days));
  std::cout << fmt::format("{}: an authority for {} days, and a certificate for this machine until {}\n"
                           "ca.key signs for every machine of the cluster: it stays here\n",
                           folder.path().string(), days, to_string(files.valid_until));
  return {};
}

// -- issue ----------------------------------------------------------------------------------------

Result<void> run_issue(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  NodeIdentity node{arguments.name, arguments.hosts, {}};
  if (!arguments.days.empty()) {
    GPUACTORS_LET(days, parse_days(arguments));
    node.days = days;
  }
  const auto out = arguments.out.empty() ? folder.path() / arguments.name : std::filesystem::path{arguments.out};
  GPUACTORS_LET(files, folder.issue(node, out));
  std::cout << fmt::format("{}: a certificate for {} until {}\n"
                           "copy ca.pem, node.pem and node.key from there to {}, into its certificate folder\n",
                           out.string(), fmt::join(node.hosts.empty() ? std::vector{node.name} : node.hosts, ", "),
                           to_string(files.valid_until), node.name);
  return {};
}

// -- show -----------------------------------------------------------------------------------------

void print_table(const std::vector<CertificateInfo>& list) {
  Table table{{"FILE", "SUBJECT", "HOSTS", "VALID FROM", "VALID UNTIL", "FINGERPRINT (SHA-256)"}};
  for (const auto& info : list)
    table.add({info.file.filename().string(), info.subject, fmt::format("{}", fmt::join(info.hosts, ",")),
               to_string(info.valid_from), to_string(info.valid_until), info.fingerprint});
  table.print(std::cout);
}

std::string iso(WallTime time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

void print_infos(const std::vector<CertificateInfo>& list) {
  auto array = Json::array();
  for (const auto& info : list)
    array.push_back({{"file", info.file.string()},
                     {"subject", info.subject},
                     {"issuer", info.issuer},
                     {"hosts", info.hosts},
                     {"valid_from", iso(info.valid_from)},
                     {"valid_until", iso(info.valid_until)},
                     {"fingerprint", info.fingerprint}});
  print_json(std::cout, array);
}

Result<void> run_show(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(list, folder.list());
  if (arguments.json)
    print_infos(list);
  else
    print_table(list);
  GPUACTORS_TRY(folder.check()); // fails as a process does that starts with these certificates
  return {};
}

// -- arguments ------------------------------------------------------------------------------------

void add_folder(CLI::App& parser, CertsArguments& arguments) {
  parser
      .add_option("--certs", arguments.certs,
                  "Folder of the certificates. Default: gpuactors/certs in $XDG_STATE_HOME or ~/.local/state")
      ->type_name("DIR");
}

CLI::App* add_init(CLI::App& parser, CertsArguments& arguments) {
  auto* init = parser.add_subcommand("init", "Make an authority, and a certificate for this machine");
  add_folder(*init, arguments);
  init->add_option("--days", arguments.days, "Life of the authority. Default: 3650")->type_name("N");
  init->footer("One machine alone needs none of this. For several, run it on one of them, once.\n\n"
               "Examples:\n"
               "  gpuactors certs init\n"
               "  gpuactors certs init --certs cluster-certs --days 730");
  return init;
}

CLI::App* add_issue(CLI::App& parser, CertsArguments& arguments) {
  auto* issue = parser.add_subcommand("issue", "Issue a certificate for another machine");
  issue->add_option("name", arguments.name, "Who it is for; also its host, without --host")
      ->type_name("NAME")
      ->required();
  issue
      ->add_option("--host", arguments.hosts,
                   "Host name or IP address that it can be reached at, without port; may be repeated")
      ->type_name("H")
      ->allow_extra_args(false);
  add_folder(*issue, arguments);
  issue->add_option("--out", arguments.out, "Folder to write to. Default: NAME in the folder of the certificates")
      ->type_name("DIR");
  issue->add_option("--days", arguments.days, "Life of the certificate. Default: 365")->type_name("N");
  issue->footer("Run it where the authority was made, then copy the folder to the machine. A key that is there is "
                "kept.\n\n"
                "Examples:\n"
                "  gpuactors certs issue node-1 --host gpu1.example.org --host 10.0.0.1 --out node-1\n"
                "  ssh gpu1.example.org mkdir -p -m 700 .local/state/gpuactors/certs\n"
                "  scp -p node-1/* gpu1.example.org:.local/state/gpuactors/certs/");
  return issue;
}

CLI::App* add_show(CLI::App& parser, CertsArguments& arguments) {
  auto* show = parser.add_subcommand("show", "Show the certificates of a folder, and whether they would do");
  add_folder(*show, arguments);
  show->add_flag("--json", arguments.json, "Print one array with an object for each certificate");
  show->footer("Exit code 2, with the reason, when a process would refuse to start with them.\n\n"
               "Examples:\n"
               "  gpuactors certs show\n"
               "  gpuactors certs show --certs node-1 --json | jq -r '.[].valid_until'");
  return show;
}

} // namespace

Command add_certs(CLI::App& program) {
  auto arguments = std::make_shared<CertsArguments>();
  auto* parser = program.add_subcommand("certs", "An authority and certificates for the machines of a cluster");
  parser->require_subcommand(1);
  auto* init = add_init(*parser, *arguments);
  auto* issue = add_issue(*parser, *arguments);
  add_show(*parser, *arguments);
  parser->footer("Every port of a cluster asks who connects. ca.pem says whom to trust, node.pem and node.key who a "
                 "machine is.\nca.key makes new certificates and never leaves the machine where it was made.\n\n"
                 "Examples:\n"
                 "  gpuactors certs init                                  once, on one machine\n"
                 "  gpuactors certs issue node-1 --host 10.0.0.1          there too, for each other machine\n"
                 "  gpuactors certs show                                  anywhere: what there is, and until when");
  return {parser, [arguments, init, issue] {
            if (init->parsed()) {
              if (arguments->days.empty())
                arguments->days = std::to_string(limits::authority_days);
              return run_init(*arguments);
            }
            return issue->parsed() ? run_issue(*arguments) : run_show(*arguments);
          }};
}

} // namespace gpuactors::cli
