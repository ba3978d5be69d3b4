// gpuactors certs: makes the authority of a cluster and the certificates of its machines.
#include "command.hpp"
#include "input.hpp"
#include "json.hpp"
#include "table.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/cluster/open_options.hpp>
#include <gpuactors/wire/certificates.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iostream>
#include <memory>

namespace gpuactors::cli {

namespace {

struct CertsArguments {
  std::string certs = OpenOptions::from_environment().connect.certificates;
  std::string days;
  std::string name;
  std::vector<std::string> hosts;
  std::string out;
  /// What to revoke.
  std::string which;
  bool client = false;
  bool force = false;
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
  CertificateOwner owner{arguments.name, arguments.hosts, {}};
  if (arguments.client)
    owner.role = CertificateRole::client;
  if (!arguments.days.empty()) {
    GPUACTORS_LET(days, parse_days(arguments));
    owner.days = days;
  }
  const auto out = arguments.out.empty() ? folder.path() / arguments.name : std::filesystem::path{arguments.out};
  GPUACTORS_LET(files, folder.issue(owner, out));
  std::cout << fmt::format("{}: a {}'s certificate for {} until {}\n"
                           "copy its files to {}, into the certificate folder there\n",
                           out.string(), to_string(owner.role),
                           fmt::join(owner.hosts.empty() ? std::vector{owner.name} : owner.hosts, ", "),
                           to_string(files.valid_until), owner.name);
  return {};
}

// -- revoke ---------------------------------------------------------------------------------------

Result<void> run_revoke(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(revoked, folder.revoke(arguments.which));
  for (const auto& info : revoked)
    std::cout << fmt::format("revoked the certificate of {}, valid until {} ({})\n", info.subject,
                             to_string(info.valid_until), info.serial);
  std::cout << fmt::format("copy {} to the certificate folders of all machines: their processes read it within seconds "
                           "and need no restart\n",
                           (folder.path() / "revoked.pem").string());
  return {};
}

// -- replace, retire ------------------------------------------------------------------------------

Result<void> run_replace(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(days, parse_days(arguments));
  GPUACTORS_LET(made, folder.replace_authority(days));
  std::cout << fmt::format("{0}: {1} until {2} signs from now on, and the one before it is trusted as well\n"
                           "1. now copy ca.pem and revoked.pem to the certificate folders of all machines: their "
                           "processes read them within seconds\n"
                           "2. then issue new certificates to all (gpuactors certs issue), this machine included "
                           "(--out {0})\n"
                           "3. then gpuactors certs retire, and copy the two files once more\n",
                           folder.path().string(), made.subject, to_string(made.valid_until));
  return {};
}

Result<void> run_retire(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(retired, folder.retire_authority(arguments.force));
  if (retired)
    std::cout << fmt::format("{} is no longer trusted here\n", retired->subject);
  std::cout << fmt::format("copy ca.pem and revoked.pem of {} to the certificate folders of all machines; connections "
                           "that exist stay\n",
                           folder.path().string());
  return {};
}

// -- show -----------------------------------------------------------------------------------------

std::string role_text(const CertificateInfo& info) {
  return info.is_authority ? "authority" : std::string{to_string(info.role)};
}

void print_table(const std::vector<CertificateInfo>& list) {
  Table table{{"FILE", "SUBJECT", "ROLE", "HOSTS", "VALID FROM", "VALID UNTIL", "FINGERPRINT (SHA-256)"}};
  for (const auto& info : list)
    table.add({info.file.filename().string(), info.subject, role_text(info),
               fmt::format("{}", fmt::join(info.hosts, ",")), to_string(info.valid_from), to_string(info.valid_until),
               info.fingerprint});
  table.print(std::cout);
}

void print_issued(const std::vector<CertificateInfo>& list) {
  Table table{{"SUBJECT", "ROLE", "VALID FROM", "VALID UNTIL", "REVOKED", "SERIAL NUMBER"}};
  for (const auto& info : list)
    table.add({info.subject, role_text(info), to_string(info.valid_from), to_string(info.valid_until),
               info.revoked ? to_string(*info.revoked) : "", info.serial});
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
                     {"role", role_text(info)},
                     {"issuer", info.issuer},
                     {"hosts", info.hosts},
                     {"valid_from", iso(info.valid_from)},
                     {"valid_until", iso(info.valid_until)},
                     {"revoked", info.revoked ? Json(iso(*info.revoked)) : Json()},
                     {"serial", info.serial},
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

Result<void> run_issued(const CertsArguments& arguments) {
  GPUACTORS_LET(folder, open_folder(arguments));
  GPUACTORS_LET(list, folder.issued());
  if (arguments.json)
    print_infos(list);
  else
    print_issued(list);
  return {};
}

// -- arguments ------------------------------------------------------------------------------------

void add_folder(CLI::App& parser, CertsArguments& arguments) {
  parser
      .add_option("--certs", arguments.certs,
                  "Folder of the certificates. Default: GPUACTORS_CERTS, else gpuactors/certs in $XDG_STATE_HOME or "
                  "~/.local/state")
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
  auto* issue = parser.add_subcommand("issue", "Issue a certificate for another machine, or for a user");
  issue->add_option("name", arguments.name, "Who it is for; also its host, without --host")
      ->type_name("NAME")
      ->required();
  issue
      ->add_option("--host", arguments.hosts,
                   "Host name or IP address that it can be reached at, without port; may be repeated")
      ->type_name("H")
      ->allow_extra_args(false);
  issue->add_flag(
      "--client", arguments.client,
      "For a user or a program: it may use the cluster and end what its own name has started, but neither run "
      "a broker or a node nor administer");
  add_folder(*issue, arguments);
  issue->add_option("--out", arguments.out, "Folder to write to. Default: NAME in the folder of the certificates")
      ->type_name("DIR");
  issue->add_option("--days", arguments.days, "Life of the certificate. Default: 365")->type_name("N");
  issue->footer("Run it where the authority was made, then copy the folder to the machine. A key that is there is "
                "kept.\n\n"
                "Examples:\n"
                "  gpuactors certs issue node-1 --host gpu1.example.org --host 10.0.0.1 --out node-1\n"
                "  ssh gpu1.example.org mkdir -p -m 700 .local/state/gpuactors/certs\n"
                "  scp -p node-1/* gpu1.example.org:.local/state/gpuactors/certs/\n"
                "  gpuactors certs issue alice --client --out alice");
  return issue;
}

CLI::App* add_revoke(CLI::App& parser, CertsArguments& arguments) {
  auto* revoke = parser.add_subcommand("revoke", "Revoke certificates, so that nobody accepts them any more");
  revoke
      ->add_option("which", arguments.which,
                   "A name, all of whose certificates are revoked; the serial number of one; or a file with one")
      ->type_name("NAME|SERIAL|FILE")
      ->required();
  add_folder(*revoke, arguments);
  revoke->footer("Run it where the authority was made: it adds to revoked.pem there. Copy that file to all machines.\n"
                 "Processes that see it refuse the certificates and end the connections of their owners.\n\n"
                 "Examples:\n"
                 "  gpuactors certs revoke alice\n"
                 "  scp ~/.local/state/gpuactors/certs/revoked.pem gpu1.example.org:.local/state/gpuactors/certs/");
  return revoke;
}

CLI::App* add_issued(CLI::App& parser, CertsArguments& arguments) {
  auto* issued = parser.add_subcommand("issued", "List the certificates that were issued here, and those revoked");
  add_folder(*issued, arguments);
  issued->add_flag("--json", arguments.json, "Print one array with an object for each certificate");
  issued->footer("Run it where the authority was made.\n\n"
                 "Examples:\n"
                 "  gpuactors certs issued\n"
                 "  gpuactors certs issued --json | jq -r '.[] | select(.revoked == null) | .subject'");
  return issued;
}

CLI::App* add_replace(CLI::App& parser, CertsArguments& arguments) {
  auto* replace = parser.add_subcommand("replace", "Make a new authority, beside the one that it is to replace");
  add_folder(*replace, arguments);
  replace->add_option("--days", arguments.days, "Life of the new authority. Default: 3650")->type_name("N");
  replace->footer(
      "Run it where the authority was made, before that one ends, or when its key may have leaked. Nothing\n"
      "has to be stopped: it says what to copy and issue, in which order.\n\n"
      "Examples:\n"
      "  gpuactors certs replace\n"
      "  for machine in gpu1 gpu2; do scp ca.pem revoked.pem $machine:.local/state/gpuactors/certs/; done\n"
      "  gpuactors certs issue gpu1 --host 10.0.0.1 --out gpu1      and so on, for all\n"
      "  gpuactors certs retire");
  return replace;
}

CLI::App* add_retire(CLI::App& parser, CertsArguments& arguments) {
  auto* retire = parser.add_subcommand("retire", "Trust the authority no longer that was replaced");
  add_folder(*retire, arguments);
  retire->add_flag("--force", arguments.force,
                   "Even if some have no certificate of the new authority yet, who then cannot connect");
  retire->footer("Run it where the authority was made.\n\n"
                 "Examples:\n"
                 "  gpuactors certs retire");
  return retire;
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
  auto* issued = add_issued(*parser, *arguments);
  auto* revoke = add_revoke(*parser, *arguments);
  auto* replace = add_replace(*parser, *arguments);
  auto* retire = add_retire(*parser, *arguments);
  add_show(*parser, *arguments);
  parser->footer("Every port of a cluster asks who connects. ca.pem says whom to trust, node.pem and node.key who a "
                 "machine is.\nca.key makes new certificates and never leaves the machine where it was made.\n\n"
                 "Examples:\n"
                 "  gpuactors certs init                                  once, on one machine\n"
                 "  gpuactors certs issue node-1 --host 10.0.0.1          there too, for each other machine\n"
                 "  gpuactors certs issue alice --client                  there too, for each user\n"
                 "  gpuactors certs revoke alice                          there too, when somebody must not come in\n"
                 "  gpuactors certs replace                               there too, before the authority ends\n"
                 "  gpuactors certs show                                  anywhere: what there is, and until when");
  return {parser, [arguments, init, issue, issued, revoke, replace, retire] {
            if (arguments->days.empty() && (init->parsed() || replace->parsed()))
              arguments->days = std::to_string(limits::authority_days);
            if (init->parsed())
              return run_init(*arguments);
            if (replace->parsed())
              return run_replace(*arguments);
            if (retire->parsed())
              return run_retire(*arguments);
            if (issue->parsed())
              return run_issue(*arguments);
            if (issued->parsed())
              return run_issued(*arguments);
            return revoke->parsed() ? run_revoke(*arguments) : run_show(*arguments);
          }};
}

} // namespace gpuactors::cli
