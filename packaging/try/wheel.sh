# The wheel in an environment that sees Debian's pyverbs: wheel.sh FILE
. /packages/common.sh
as_tester python3 -m venv --system-site-packages venv
as_tester venv/bin/pip install --no-index "/packages/$1"
venv=/home/tester/venv
describes $venv
as_tester sh /packages/programs.sh $venv/bin/longarm $venv/bin/python
is_not_the_systems
as_tester $venv/bin/pip uninstall --yes longarm
nothing_left /
