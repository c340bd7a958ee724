# Completion of ossia's command lines in bash (from 3.2 on): `ossia completion bash` prints this.

_ossia() {
    local program=ossia more line
    case $1 in
        "~/"*) program=$HOME/${1#*/} ;;
        */*) program=$1 ;;
    esac
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ -z $more ]]; then more=$line; else COMPREPLY+=("$line"); fi
    done < <("$program" completion bash -- "${COMP_LINE:0:COMP_POINT}" "$2" "$COMP_TYPE" </dev/null 2>/dev/null)
    case $more in # compopt came with bash 4; without it, file names stay on offer where nothing else fits
        none) compopt +o default ;;
        folders) compopt +o default -o dirnames ;;
    esac 2>/dev/null
}

complete -o default -o nosort -F _ossia ossia 2>/dev/null || complete -o default -F _ossia ossia
