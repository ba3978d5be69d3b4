// Who may ask: tokens from a file, and the rule for addresses that other machines can reach.
#pragma once

#include <gpuactors/base/endpoint.hpp>
#include <gpuactors/base/result.hpp>

#include <apps/serve/fronts.hpp>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

/// What somebody may do.
enum class Rights : std::uint8_t {
  none,
  /// All but to load and unload models.
  ask,
  all,
};

/// The tokens that open the server. Only their digests are kept. Any thread.
class Tokens {
public:
  /// None: everybody may do everything.
  Tokens() = default;

  /// Reads a file of one token a line, with "ask" before it if it has only these rights; blank lines and lines that
  /// begin with # do not count.
  /// @returns `invalid_argument` for a file that cannot be read, that everybody may read, that has no token, or one
  ///          that is too short or would not go into a header.
  [[nodiscard]] static gpuactors::Result<Tokens> read(const std::filesystem::path& file);

  [[nodiscard]] bool required() const noexcept {
    return !known_.empty();
  }

  /// The rights of the token that a header "authorization" brings as "Bearer TOKEN"; all, when there are none. The time
  /// it takes does not tell how much of a token is right.
  [[nodiscard]] Rights rights_of(std::string_view authorization) const;

  /// Whether it brings one of them.
  [[nodiscard]] bool accept(std::string_view authorization) const {
    return rights_of(authorization) != Rights::none;
  }

private:
  using Digest = std::array<unsigned char, 32>;
  struct Known {
    Digest digest;
    Rights rights;
  };

  static Digest digest_of(std::string_view token);
  std::vector<Known> known_;
};

/// The tokens that open the server now. Any thread.
class CurrentTokens {
public:
  explicit CurrentTokens(Tokens tokens) : tokens_(std::make_shared<const Tokens>(std::move(tokens))) {
    // nop
  }

  [[nodiscard]] std::shared_ptr<const Tokens> get() const {
    const std::lock_guard lock{mutex_};
    return tokens_;
  }

  void set(Tokens tokens) {
    auto next = std::make_shared<const Tokens>(std::move(tokens));
    const std::lock_guard lock{mutex_};
    tokens_ = std::move(next);
  }

private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Tokens> tokens_;
};

/// Checks that certificate and key can be used, and belong to each other.
/// @returns `invalid_argument` with the reason otherwise.
[[nodiscard]] gpuactors::Result<void> check_tls(const TlsFiles& files);

/// The sentence for a request without a token.
inline constexpr std::string_view token_wanted = "this server wants a token: send the header \"Authorization: Bearer "
                                                 "TOKEN\"";

/// The sentence for a load or unload by a token that may not.
inline constexpr std::string_view may_only_ask = "this token may ask models, and not load or unload them";

/// Whether a server that wants no token takes a request with these headers, in small letters. A browser on this machine
/// sends requests for pages of any site: they name that site as their origin, or as their host where its name was made
/// to lead here. What has no such header is no page's.
[[nodiscard]] bool is_from_here(const gpuactors::Endpoint& listening, bool tls, std::string_view host,
                                const std::optional<std::string>& origin);

/// The sentence for a request that is not.
inline constexpr std::string_view from_elsewhere = "this server wants no token, so that it takes no requests of pages "
                                                   "of other sites: Host must be its own address, and Origin too "
                                                   "where there is one";

/// Whether a server may listen there: only this machine can reach it, or it has tokens or TLS.
/// @returns `invalid_argument` otherwise.
[[nodiscard]] gpuactors::Result<void> check_exposure(const gpuactors::Endpoint& endpoint, bool tokens, bool tls);

} // namespace serve
