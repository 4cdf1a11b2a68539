# Functions of the trials, which run as root on a clean Debian.

# An ordinary user, with a home.
useradd --create-home --shell /bin/bash tester

# as_tester COMMAND...: as that user, in the home.
as_tester() {
    (cd /home/tester && setpriv --reuid=tester --regid=tester --init-groups \
        env --ignore-environment HOME=/home/tester USER=tester LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "$@")
}

fail() {
    echo "trial: $*" >&2
    exit 1
}

# describes PREFIX: the files for readers and shells are there.
describes() {
    for file in "$1"/share/man/man1/longarm-run.1* "$1"/share/doc/longarm/LICENSE-MIT \
        "$1"/share/doc/longarm/LICENSE-APACHE "$1"/share/doc/longarm/LICENSES-OF-OTHERS \
        "$1"/share/zsh/*/_longarm "$1"/share/fish/vendor_completions.d/longarm.fish; do
        test -s "$file" || fail "$file is not there"
    done
    bash -c ". '$1/share/bash-completion/completions/longarm' && complete -p longarm" >/dev/null ||
        fail "bash does not take the completions"
}

# nothing_left DIR...: no file of Longarm is below, except for runtime directories.
nothing_left() {
    left=$(find "$@" -xdev -iname '*longarm*' -not -path '/packages/*' -not -path '/tmp/longarm-*')
    test -z "$left" || fail "left over: $left"
}

# is_not_the_systems: programs without `longarm run` still get the system's libraries.
is_not_the_systems() {
    if ldconfig -p | grep longarm; then fail "the loader finds Longarm's library by itself"; fi
    if as_tester ibv_devices 2>&1 | grep la_; then fail "ibv_devices shows Longarm's devices without longarm run"; fi
}
