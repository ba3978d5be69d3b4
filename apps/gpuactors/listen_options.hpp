// Options of subcommands that serve pages without a login: --listen and --allow-remote.
#pragma once

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/result.hpp>

#include <CLI/CLI.hpp>

#include <string>

namespace gpuactors::cli {

/// Where pages are served. Only this machine reads them, unless the operator says that others may.
class ListenOptions {
public:
  /// @param listen the address if none is given, HOST:PORT.
  /// @param contents what others could read there, for the error.
  ListenOptions(std::string listen, std::string contents) : listen_(std::move(listen)), contents_(std::move(contents)) {
    // nop
  }

  /// Adds the options to a subcommand. The object must outlive the parsing.
  void add_to(CLI::App& parser);

  /// Returns where to listen.
  /// @returns `invalid_argument` for a bad address, and for one that is not on loopback without --allow-remote.
  [[nodiscard]] Result<Endpoint> where() const;

private:
  std::string listen_;
  std::string contents_;
  bool allow_remote_ = false;
};

} // namespace gpuactors::cli
