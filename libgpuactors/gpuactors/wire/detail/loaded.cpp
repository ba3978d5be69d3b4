#include "loaded.hpp"

#include <gpuactors/base/limits.hpp>
#include <gpuactors/wire/detail/private_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace gpuactors::detail {

namespace {

constexpr auto new_authority = "make another with gpuactors certs replace where it was made, and issue for all nodes";

std::string issue_command(const std::filesystem::path& out) {
  return fmt::format("gpuactors certs issue NAME --out {}", out.string());
}

Result<void> check_dates(const CertificateInfo& info, WallTime now, const std::string& advice) {
  if (now >= info.valid_until)
    return fail(Errc::invalid_argument, fmt::format("{} expired on {}, and it is {} now: {}", info.file.string(),
                                                    to_string(info.valid_until), to_string(now), advice));
  if (now < info.valid_from)
    return fail(Errc::invalid_argument,
                fmt::format("{} is valid from {} on, and it is {} now: set the clock, or {}", info.file.string(),
                            to_string(info.valid_from), to_string(now), advice));
  return {};
}

} // namespace

Result<Certificate> load_certificate(const std::filesystem::path& file) {
  GPUACTORS_LET(pem, read_file(file, Access::all));
  return certificate_from_pem(pem, file);
}

Result<Key> load_key(const std::filesystem::path& file) {
  GPUACTORS_LET(pem, read_file(file, Access::owner));
  return key_from_pem(pem, file);
}

Result<Authorities> load_authorities(const std::filesystem::path& file) {
  GPUACTORS_LET(pem, read_file(file, Access::all));
  return authorities_from_pem(pem, file);
}

Result<RevocationLists> load_all_revocations(const std::filesystem::path& file) {
  if (!is_there(file))
    return RevocationLists{};
  GPUACTORS_LET(pem, read_file(file, Access::all));
  return revocations_from_pem(pem, file);
}

Result<RevocationLists> load_revocations(const std::filesystem::path& file, const Authorities& authorities) {
  GPUACTORS_LET(all, load_all_revocations(file));
  auto lists = newest_of(authorities, all);
  if (!all.empty() && lists.empty())
    return fail(Errc::invalid_argument,
                fmt::format("{} is not of the authority {}: copy it again from the machine where that was made",
                            file.string(), name_of(*authorities.front())));
  return lists;
}

namespace {

/// The one of `authorities` to whom the key belongs.
Result<Authority> with_key(Key key, const std::filesystem::path& folder, const char* key_file) {
  GPUACTORS_LET(authorities, load_authorities(folder / authority_file));
  for (auto& certificate : authorities)
    if (belongs_to(*key, *certificate))
      return Authority{std::move(certificate), std::move(key)};
  return fail(Errc::invalid_argument,
              fmt::format("{0}/{1} is not the key of {0}/{2}: put back the two that belong together", folder.string(),
                          key_file, authority_file));
}

Result<Authority> load_signer(const std::filesystem::path& folder) {
  auto key = load_key(folder / authority_key_file);
  if (!key && key.error().code() == Errc::not_found)
    return fail(Errc::not_found,
                fmt::format("{} is missing: run this on the machine where the authority was made, or make one with "
                            "gpuactors certs init --certs {}",
                            (folder / authority_key_file).string(), folder.string()));
  if (!key)
    return fail(key.error());
  return with_key(std::move(*key), folder, authority_key_file);
}

} // namespace

Result<Authority> load_authority(const std::filesystem::path& folder, WallTime now) {
  GPUACTORS_LET(signer, load_signer(folder));
  GPUACTORS_TRY(check_dates(describe(*signer.certificate, folder / authority_file), now, new_authority));
  return std::move(signer);
}

Result<std::vector<Authority>> load_signers(const std::filesystem::path& folder) {
  std::vector<Authority> result;
  GPUACTORS_LET(signer, load_signer(folder));
  result.push_back(std::move(signer));
  if (is_there(folder / old_authority_key_file)) {
    GPUACTORS_LET(key, load_key(folder / old_authority_key_file));
    // It is not trusted any more where a retirement was interrupted, and signs still where a replacement was.
    if (auto old = with_key(std::move(key), folder, old_authority_key_file);
        old && X509_cmp(old->certificate.get(), result.front().certificate.get()) != 0)
      result.push_back(std::move(*old));
  }
  return result;
}

Result<Loaded> load(const std::filesystem::path& folder) {
  const auto authority_path = folder / authority_file;
  const auto node_path = folder / node_file;
  const auto key_path = folder / node_key_file;
  if (!is_there(authority_path) && !is_there(node_path) && !is_there(key_path))
    return fail(
        Errc::not_found,
        fmt::format(
            "{0} has no certificates: name the folder that has them (--certs), copy {1}, {2} and {3} of gpuactors "
            "certs issue there, or make those of a new cluster with gpuactors certs init --certs {0}",
            folder.string(), authority_file, node_file, node_key_file));
  for (const auto* key : {authority_key_file, old_authority_key_file, next_authority_key_file})
    if (is_there(folder / key)) // It is not used here, but its readers could join the cluster.
      GPUACTORS_TRY(read_file(folder / key, Access::owner));
  const auto missing = [&](const Error& error, const std::string& advice) {
    return fail(error.code(),
                error.code() == Errc::not_found ? fmt::format("{}: {}", error.message(), advice) : error.message());
  };
  const auto authorities = load_authorities(authority_path);
  if (!authorities)
    return missing(authorities.error(), "copy it from the machine where the authority was made");
  auto node = load_certificate(node_path);
  if (!node)
    return missing(node.error(), "issue it where the authority was made, with " + issue_command(folder));
  auto key = load_key(key_path);
  if (!key)
    return missing(key.error(), fmt::format("it is made together with {}, by {}", node_file, issue_command(folder)));
  if (!belongs_to(**key, **node))
    return fail(Errc::invalid_argument, fmt::format("{} is not the key of {}: copy both from one folder of {}",
                                                    key_path.string(), node_path.string(), issue_command("DIR")));
  auto* issuer = issuer_of(**node, *authorities);
  Loaded loaded{
      describe(issuer != nullptr ? *issuer : *authorities->front(), authority_path), describe(**node, node_path), {}};
  const auto signer = load_signer(folder);
  loaded.renewable_until =
      signer ? describe(*signer->certificate, authority_path).valid_until : loaded.authority.valid_until;
  if (const auto why = why_refused(**node, *authorities); !why.empty())
    return fail(Errc::invalid_argument,
                fmt::format("{} (by {}) was not issued by the authority in {} ({}): {}; issue it by this one, with {}",
                            node_path.string(), loaded.node.issuer, authority_path.string(), loaded.authority.subject,
                            why, issue_command(folder)));
  GPUACTORS_LET(revocations, load_revocations(folder / revoked_file, *authorities));
  loaded.node.revoked = when_revoked(**node, revocations);
  return loaded;
}

Result<CertificateFiles> files_of(const std::filesystem::path& folder, const Loaded& loaded, WallTime now) {
  GPUACTORS_TRY(check_dates(loaded.authority, now, new_authority));
  GPUACTORS_TRY(check_dates(loaded.node, now, "issue another with " + issue_command(folder)));
  if (loaded.node.revoked)
    return fail(Errc::invalid_argument,
                fmt::format("{} was revoked on {}: issue another with {}", loaded.node.file.string(),
                            to_string(*loaded.node.revoked), issue_command(folder)));
  return CertificateFiles{folder / authority_file, folder / node_file,
                          folder / node_key_file,  std::min(loaded.authority.valid_until, loaded.node.valid_until),
                          folder / revoked_file,   loaded.node.role};
}

bool is_due(const Loaded& loaded, WallTime now) {
  const auto& node = loaded.node;
  const auto early =
      std::min<WallTime::duration>(limits::certificate_renewal, (node.valid_until - node.valid_from) / 3);
  return now >= node.valid_until - early && node.valid_until < loaded.renewable_until;
}

} // namespace gpuactors::detail
