#include "listen_options.hpp"

#include <fmt/format.h>

namespace gpuactors::cli {

void ListenOptions::add_to(CLI::App& parser) {
  parser
      .add_option("--listen", listen_, fmt::format("Where it is read; port 0: any that is free. Default: {}", listen_))
      ->type_name("HOST:PORT");
  parser.add_flag("--allow-remote", allow_remote_,
                  "Listen also at an address that other machines reach: anyone there may read it, in plaintext");
}

Result<Endpoint> ListenOptions::where() const {
  GPUACTORS_LET(where, parse_endpoint(listen_));
  if (!is_loopback(where.host) && !allow_remote_)
    return fail(Errc::invalid_argument,
                fmt::format("--listen {}: others than this machine could read {}, without a certificate; "
                            "--allow-remote says that they may",
                            listen_, contents_));
  return where;
}

} // namespace gpuactors::cli
