{
  description = "Git-native worktree manager for coding agents";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).package;
      package =
        pkgs:
        pkgs.rustPlatform.buildRustPackage {
          pname = "git-agent";
          inherit (manifest) version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          # The tests start git, cargo and shells in repositories of their own; `.ci/run` runs them.
          doCheck = false;
          postInstall = ''
            HOME=$TMPDIR $out/bin/git-agent setup shell --dir $out
          '';
          meta = {
            inherit (manifest) description;
            homepage = manifest.repository;
            mainProgram = "git-agent";
          };
        };
    in
    {
      packages = nixpkgs.lib.genAttrs systems (system: {
        default = package nixpkgs.legacyPackages.${system};
      });
    };
}
